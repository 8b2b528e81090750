"""What a worker says about a failure, without what it should not have said.

Workers send whatever their exception printed, and it is kept: so secrets, absolute paths and the stack go first. These
patterns are a net and no proof: a secret that has neither a telltale shape nor a telltale name beside it stays.

All of them run in linear time. Each starts at fixed text or at the start of a run, and from there either looks at a
bounded number of characters or consumes what it looked at; where one loop stands in another, each turn of the outer one
begins with a character that the inner one can't take. Only loops over single characters are possessive, since Python
3.11.2 gets possessive groups wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

MAX_LENGTH = 1_000
#: What stands further on could show only if nearly all before it were secret, and `re` needs 200 bytes for a character.
_MAX_READ = 100_000

_REDACTED = "[redacted]"
_PATH = "[path]"
#: Two are usual: one that cleans, one that finds nothing left. Markers that join what stood apart can ask for more.
_MAX_PASSES = 10


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.VERBOSE | re.DOTALL)


# Invisible characters leave no gap, since they would hide `pass<NUL>word=x` from every rule below.
_HARMLESS: tuple[Rule, ...] = (
    (re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]"), ""),
    (re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]"), "\n"),
    (re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"), ""),
    (re.compile(r"[\ud800-\udfff]"), "\ufffd"),
)

_KEY_LINE = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# Before the stack is cut, which works by lines. The second is the end of a block whose beginning was cut off.
_PRIVATE_KEYS: tuple[Rule, ...] = (
    (re.compile(rf"-----BEGIN {_KEY_LINE}.*?(?:-----END {_KEY_LINE}|\Z)", re.DOTALL), _REDACTED),
    (re.compile(rf"(?<![A-Za-z0-9+/=\s\\])[A-Za-z0-9+/=\s\\]*-----END {_KEY_LINE}"), _REDACTED),
)

_KNOWN_SHAPE = r"""
    eyJ[\w-]{10,}(?:\.[\w-]+){0,4}                                           # JWTs, and other JSON in base64
  | ql_[A-Za-z0-9]{8}_[\w-]{8,}
  | (?:A[KS]IA|ABIA|ACCA)[A-Z0-9]{16,} | ABSK[\w+/=]{40,} | LTAI[A-Za-z0-9]{12,}
  | AIza[\w-]{30,} | ya29\.[\w.-]{16,} | GOCSPX-[\w-]{16,} | [\w~.-]{3}\dQ~[\w~.-]{31,}
  | gh[opusr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | ATBB\w{20,} | AT[AC]TT3[\w=-]{20,}
  | gl(?:pat|ptt|dt|rt|cbt|ft|imt|agent|soat|oas|sa)[-_][\w.-]{16,}
  | xox[a-z][-.][\w.-]{10,} | xapp-\d-[\w-]{10,} | \d{8,10}:AA[\w-]{30,} | [MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}
  | (?:sk|rk|pk)_(?:live|test)_\w{10,} | whsec_[\w+/=]{16,} | sq0[a-z]{3}-[\w-]{16,}
  | sk-(?:proj|ant|svcacct|admin|or)-[\w-]{16,} | sk-[A-Za-z0-9]{20,} | (?:npm|hf|gsk)_[A-Za-z0-9]{30,}
  | pypi-AgE[\w-]{16,} | dckr_[op]at_[\w-]{16,} | SG\.[\w-]{16,64}\.[\w-]{16,} | key-[0-9a-f]{32} | SK[0-9a-f]{32}
  | [0-9a-f]{32}-us\d{1,2} | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,} | do[opr]_v1_[0-9a-f]{16,} | dapi[0-9a-f]{32}
  | hv[bsr]\.[\w-]{16,}
"""
#: Addresses that are secrets from their path on: who knows one may post to it.
_WEBHOOK = r"""((?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks|webhook\.office\.com)/)[^\s"'<>]+"""

_TELLTALE = r"""(?:
    passw(?:or[dt]|d) | passphrase | passcode | pwd | secret | credential | session[ _.-]?id | jwt
  | token(?! i[sz] | s[ ]?[:=][ ]?\d{1,7}\b )                                   # no tokenizer, no max_tokens=4096
  | (?:api|access|account|auth|encryption|master|private|shared|signing|storage|subscription)[ _.-]?key
  | (?-i: (?<![A-Za-z]) | (?<=[a-z])(?=[A-Z]) ) (?:auth|otp|pass|sid) (?![a-z])
)"""
# `TokenExpiredError: since noon` names a failure; `password: YES` and `token=null` give nothing away.
_NOT_A_FAILURE = r"(?! \w{0,40}(?:Error|Exception|Fault|Failure|Warning|NotFound|Expired|Invalid|Missing|Required)\b )"
_NO_VALUE = r"""(?! (?:yes|no|true|false|null|none|nil|undefined) (?![^\s,;&)\]}"'<]) )"""
# Also the `'] => ` of PHP, the `\": ` of JSON in JSON, and the `b'` of Python.
_IS = r"""["'\]\\]{0,4} [ \t]{0,9} (?: => | [:=]={0,2}+ ) [ \t]{0,9} (?:b(?=["']))?"""
_QUOTED = r"""(["'`]) (?: (?!\2)[^\\] | \\. | \2\2 )+ | (\\+["']) (?: [^"'\\] | \\++(?!["'\\]) )+"""
# With what it nests; a bracket that is never closed hides the rest of the text.
_BRACKETED = r"[\[({] [^\[\](){}]* (?: [\[({] [^\[\](){}]* [\])}]? [^\[\](){}]* )* [\])}]?"
# Commas, brackets and quotes belong to a bare value when more of it follows; `&` and `;` when no other pair does.
_BARE = r"""(?: \[redacted\] | \[path\] | [^\s"'`&;,)\]}<]
    | [;&] (?! \s | \Z | [\w .%\[\]-]{0,40}= ) | [,)\]}"'`] (?! [\s,;&)\]}"'`<] | \Z ) | <(?!/) )"""
_PAIR = rf"""(?i) ( {_TELLTALE} {_NOT_A_FAILURE} [\w-]{{0,40}}+ (?:[ ]provided)? (?: {_IS} | > ) ) {_NO_VALUE}
    (?: {_QUOTED} | (?: (?:apikey|basic|bearer|token)[ \t]{{1,9}} )? (?: {_BRACKETED} {_BARE}* | {_BARE}+ ) )"""
_HEADER = rf"""(?i) ( (?:authorization|cookies?) {_IS} ) (?: {_QUOTED} | (?: {_BRACKETED} | [^\s"'\\] ) [^\n"']* )"""
_FLAG = rf"""(?i) ( (?<![\w-])--[\w-]{{0,40}}?{_TELLTALE}[\w-]{{0,40}}+["']?,?[ \t]{{1,9}}+["']? ) [^\s"'-][^\s"']*"""

_ROOT = r"""(?: /+(?=[^\s/"'`<>|*^&,;:)\]}]) | [A-Za-z]:[\\/]+(?=[^\s\\/]) | \\{2,}(?=[\w.?$@-]{1,64}\\) )"""
# `and/or`, `1/2`, `./x`, `~/x`, `</p>` and `*/5` are no absolute paths; 文件/etc/x, written without a blank, is one.
_NOT_INSIDE = r"(?<! [^\W\u2e80-\U0010ffff] ) (?<! [/\\<.~%)\]}*] )"
_NAME = r"""[^\s"'`<>|.,;:()\[\]{}=]*"""
_MORE_NAME = r"""(?: \.(?=[\w/\\.-]) | [,;()\[\]{}=](?=[\w/\\-]) | :(?=[^\W\d]|[/\\]) | ["'`](?=\w) )"""
# In quotes a path ends at the quote. Elsewhere a blank ends it, unless the next thing on a Windows path is a backslash.
_ADDRESS = rf"""
    (?P<url> ://(?!/)[^\s"'<>]* )
  | (?i: \bfile:/ )[^\s"'<>]*
  | (?<=") {_ROOT} [^"\n]+ | (?<=') {_ROOT} [^'\n]+ | (?<=`) {_ROOT} [^`\n]+
  | {_NOT_INSIDE} {_ROOT} (?: (?<=\\) (?: [^\\/:*?"'<>|\n]{{1,64}}\\+ )* )? {_NAME} (?: {_MORE_NAME} {_NAME} )*
"""


def _path_but_no_url(match: re.Match[str]) -> str:
    return match[0] if match["url"] else _PATH


#: What has a shape of its own, then what only its name gives away; paths last, or a `/` in a password would end it.
_RULES: tuple[Rule, ...] = (
    (_compile(r"""://[^\s/?\#"'<>]+@"""), f"://{_REDACTED}@"),
    # A password with a `/` in it, and no port.
    (_compile(r"""://[^\s/:@"'<>]{0,256}:(?!\d{0,5}(?:[/?\#\s]|\Z))[^\s@"'<>]{1,256}@"""), f"://{_REDACTED}@"),
    (_compile(r"""(?<![\w.+-])([\w.+-]{1,64}:)[^\s@/"'<>]{1,128}(?=@[\w.-]{1,255}[:/(])"""), rf"\1{_REDACTED}"),
    (_compile(_KNOWN_SHAPE), _REDACTED),
    (_compile(_WEBHOOK), rf"\1{_REDACTED}"),
    # These come in several parts, some of them quoted, up to the end of the line.
    (_compile(r"(?i)\b(digest|hawk|oauth|aws4-hmac-sha256)[ ][\w-]{1,40}=[^\n]+"), rf"\1 {_REDACTED}"),
    (_compile(_HEADER), rf"\1\2\3{_REDACTED}"),
    # Not the words of `Bearer authentication required` and `Basic authentication`.
    (_compile(r"(?i)\b(bearer[ \t]{1,9})(?!auth|challenge|error|realm|scheme|token)[\w.~+/=-]{6,}"), rf"\1{_REDACTED}"),
    (_compile(r"\b([Bb]asic[ ])(?=[A-Za-z]{0,99}(?:[\d+/=]|[a-z][A-Z]))[A-Za-z\d+/]{6,}={0,2}"), rf"\1{_REDACTED}"),
    (_compile(_PAIR), rf"\1\2\3{_REDACTED}"),
    (_compile(_FLAG), rf"\1{_REDACTED}"),
    (
        _compile(r"""(?i)([?&](?:amp;)?(?:key|code|sig|signature|x-(?:amz|goog)-\w+)=)[^&\#\s"'<>]+"""),
        rf"\1{_REDACTED}",
    ),
    (_compile(_ADDRESS), _path_but_no_url),
)

# Python's exception, and that of Ruby's older traces, is the first line after the last frame that stands further out.
_PYTHON = _compile(r"""
    (?P<indent>[\s|+-]*+)
    (?: File[ ]\\*"[^"]*",[ ]line[ ]\d | (?P<head>.*Traceback[ ]\(most[ ]recent[ ]call[ ]last\):) )
""")
# Everybody else's stands before the first frame.
_FRAME = _compile(r"""
    \s+at\s\S.*(?: [)\]>{] | :\d+ | :line[ ]\d+ )\s*\Z                           # Java, Node, .NET
  | goroutine[ ]\d+[ ]\[ | \t\S.*\.go:\d                                         # Go
  | \s*from[ ]\S.*:\d+:in\b | \S[^:]*:\d+:in[ ][`'][^']*'\s*\Z                   # Ruby
  | \#\d+\s+(?: \S.*\(\d+\): | \[internal | \{main\} | 0x )                      # PHP, and C
""")
_EXCEPTION = _compile(r"""
    panic:[ ] | fatal[ ]error:[ ] | (?:Error|Exception)\)?(?:[ ]\[\w+\])?(?::|\s*\Z) | ^\s*[\w$.\\]+[.\\][A-Z]\w*:[ ]
""")


def clean(text: str) -> str:
    """Return the text without secrets, absolute paths and stack trace, in at most 1,000 characters.

    Only an empty text gives an empty one, and cleaning a clean text changes nothing.
    """
    if not text:
        return ""
    for _ in range(_MAX_PASSES):
        # The cut comes last, since half a token no longer looks like one.
        cleaned = _one_pass(text)[:MAX_LENGTH].strip() or _REDACTED
        if cleaned == text:
            return cleaned
        text = cleaned
    return _REDACTED


def _one_pass(text: str) -> str:
    legible = _apply(_PRIVATE_KEYS, _apply(_HARMLESS, text))
    return _apply(_RULES, _without_stack(legible.strip("\n"))[:_MAX_READ])


def _apply(rules: tuple[Rule, ...], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _without_stack(text: str) -> str:
    # A trace that was quoted into one line has its line ends escaped.
    lines = text.split("\n") if "\n" in text else re.split(r"(?<!\\)\\n", text)
    for index in reversed(range(len(lines))):
        if found := _PYTHON.match(lines[index]):
            limit = len(found["indent"]) + 1 if found["head"] else max(len(found["indent"]), 1)
            return _exception_after(lines[index + 1 :], limit)
    first = next((index for index, line in enumerate(lines) if _FRAME.match(line)), None)
    return text if first is None else _exception_before(lines[:first])


def _exception_after(lines: list[str], limit: int) -> str:
    for line in lines:
        bare = line.lstrip(" \t|+-")
        if bare and len(line) - len(bare) < limit:
            return bare
    return _REDACTED


def _exception_before(lines: list[str]) -> str:
    # An arrow marks what .NET calls the inner exception.
    named = [line for line in lines if _EXCEPTION.search(line) and not line.lstrip().startswith("--->")]
    spoken = [line for line in lines if line.strip()]
    return named[-1] if named else spoken[0] if spoken else _REDACTED
