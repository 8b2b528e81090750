"""What a worker says about a failure, without what it should not have said.

Workers send whatever their exception printed. Admins read it later, so it must not hold the secrets, the paths or the
stack that came with it. Patterns are a net, not a proof: what has no telltale name or shape stays.

All patterns run in linear time. Each starts at something fixed or at the start of a run, and from there either looks
at a bounded number of characters or consumes what it looked at; a loop inside a loop is possessive.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 1_000

_REDACTED = "[redacted]"
_PATH = "[path]"
#: More than any text has needed; each pass can uncover only what an earlier rule's marker has set free.
_MAX_PASSES = 10

# Colours and invisible characters go first, and leave no gap: they would hide `pass<NUL>word=` from the rules.
_HARMLESS = (
    (re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]"), ""),
    (re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]"), "\n"),
    (re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"), ""),
    (re.compile(r"[\ud800-\udfff]"), "\ufffd"),
)

_PRIVATE_KEY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM = (
    re.compile(rf"-----BEGIN {_PRIVATE_KEY}.*?(?:-----END {_PRIVATE_KEY}|\Z)", re.DOTALL),
    # The tail of a block whose start was cut off: the base64 before its END line.
    re.compile(rf"(?<![A-Za-z0-9+/=\s\\])[A-Za-z0-9+/=\s\\]*+-----END {_PRIVATE_KEY}"),
)

_SECRET_NAME = r"""(?:
    passw(?:or[dt]|d) | passphrase | passcode | pwd | secret | token | credential | session[ _.-]?id | jwt
  | (?:api|access|account|auth|encryption|master|private|shared|signing|storage|subscription)[ _.-]?key
  | (?<![a-z])(?:pass|auth|otp|sid)(?![a-z])
)"""
# `TokenExpiredError: it has expired` names a failure and not a token.
_NOT_A_FAILURE = r"(?!\w{0,40}(?:Error|Exception|Fault|Failure|Warning|NotFound|Expired|Invalid|Missing|Required)\b)"
_AFTER_NAME = r"""[\w.-]{0,40}+ ["'\]\\]{0,4}+"""
_IS = r"(?: [ \t]{0,9}+ (?: => | := | [:=] ) [ \t]{0,9}+ | > )"
# `using password: YES` and `token=null` tell an operator something and an attacker nothing.
_NO_VALUE = r"""(?! (?:yes|no|true|false|null|none|nil|undefined) (?![^\s,;&)\]}"'<]) )"""
_QUOTED = r"""(["'`]) (?: (?!\2)[^\\] | \\. )++"""
_ESCAPED = r"""(\\++["']) (?: [^"'\\] | \\++(?!["'\\]) )++"""
# A comma, bracket or quote belongs to a bare value only when more of the value follows; `&` and `;` when no pair does.
_BARE = r"""(?:(?:bearer|basic|token|apikey)[ \t]{1,9})?+ (?! ["'\\] )
    (?: [\[({][^\])}\n]*+[\])}]? )?+
    (?: \[redacted\] | \[path\] | [^\s"'`&;,)\]}<]
      | [&;] (?! \s | \Z | [\w .%\[\]-]{0,40}= )
      | [,)\]}"'`] (?! [\s,;&)\]}"'`<] | \Z )
      | < (?!/)
    )*+"""

_WORD = r"[A-Za-z0-9_-]"
_TOKENS = rf"""
    eyJ{_WORD}{{10,}}+(?:\.{_WORD}++){{0,4}}+                                       # JWTs, and other JSON in base64
  | ql_[A-Za-z0-9]{{8}}_{_WORD}{{8,}}
  | (?:A[KS]IA|ABIA|ACCA)[A-Z0-9]{{16,}} | ABSK[A-Za-z0-9+/=]{{40,}} | LTAI[A-Za-z0-9]{{12,}}
  | AIza{_WORD}{{30,}} | ya29\.[\w.-]{{16,}} | GOCSPX-{_WORD}{{16,}} | [\w~.-]{{3}}\dQ~[\w~.-]{{31,}}
  | gh[pousr]_[A-Za-z0-9]{{20,}} | github_pat_\w{{20,}} | ATBB\w{{20,}} | AT[AC]TT3[\w=-]{{20,}}
  | gl(?:pat|ptt|dt|rt|cbt|ft|imt|agent|soat|oas|sa)[-_][\w.-]{{16,}}
  | xox[a-z]-{_WORD}{{10,}} | xapp-\d-{_WORD}{{10,}} | \d{{8,10}}:AA{_WORD}{{30,}}
  | [MNO]{_WORD}{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,}}                             # a chat bot's, in three parts
  | (?:sk|rk|pk)_(?:live|test)_\w{{10,}} | whsec_[\w+/=]{{16,}} | sq0[a-z]{{3}}-{_WORD}{{16,}}
  | sk-(?:proj|ant|svcacct|admin|or)-{_WORD}{{16,}} | sk-[A-Za-z0-9]{{20,}}
  | (?:npm|hf|gsk)_[A-Za-z0-9]{{30,}} | pypi-AgE{_WORD}{{16,}} | dckr_[op]at_{_WORD}{{16,}}
  | SG\.{_WORD}{{16,64}}\.{_WORD}{{16,}} | key-[0-9a-f]{{32}} | SK[0-9a-f]{{32}} | [0-9a-f]{{32}}-us\d{{1,2}}
  | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{16,}} | do[opr]_v1_[0-9a-f]{{16,}} | dapi[0-9a-f]{{32}} | hv[sbr]\.{_WORD}{{16,}}
"""

# Where a path ends nobody can say; in quotes it is the quote, else a blank, and punctuation that nothing follows.
_ROOT = r"(?: /++(?=[^\s/\"'`<>|*^&,;:)\]}]) | [A-Za-z]:[\\/]++(?=[^\s\\/]) | \\{2,}+(?=[\w.?$@-]{1,64}\\) )"
_BEFORE_ROOT = r"(?<![^\W\u2e80-\U0010ffff]) (?<![/\\<.~%)\]}*])"
_IN_PATH = r"""[^\s"'`<>|.,;:()\[\]{}=]*+"""
_PATH_GOES_ON = r"""(?: [.,;()\[\]{}=](?=[\w/\\.-]) | :(?=[^\W\d]|[/\\]) | ["'`](?=\w) )"""
_PATHS = rf"""
    (?P<url> ://(?!/)[^\s"'<>]*+ )
  | (?i: \bfile:/ )[^\s"'<>]*+
  | (?<=") {_ROOT} [^"\n]++ | (?<=') {_ROOT} [^'\n]++ | (?<=`) {_ROOT} [^`\n]++
  | {_BEFORE_ROOT} {_ROOT} (?: (?<=\\) (?: [^\\/:*?"'<>|\n]{{1,64}}+\\++ )*+ )?+
    {_IN_PATH} (?: {_PATH_GOES_ON} {_IN_PATH} )*+
"""


def _keep_url(match: re.Match[str]) -> str:
    return match[0] if match["url"] else _PATH


_Rule = tuple[re.Pattern[str], "str | Callable[[re.Match[str]], str]"]
#: In this order: what has a shape of its own, then what only its name gives away, and paths when the rest is gone.
_RULES: tuple[_Rule, ...] = (
    # User-info first: it may hold what looks like a path. The second is a password with a slash in it, not a port.
    (re.compile(r"""://[^\s/?#"'<>]*@"""), f"://{_REDACTED}@"),
    (re.compile(r"""://[^\s/:@"'<>]{0,256}+:(?!\d{0,5}(?:[/?#\s]|\Z))[^\s@"'<>]{1,256}+@"""), f"://{_REDACTED}@"),
    (re.compile(r"""(?<![\w.+-])([\w.+-]{1,64}+:)[^\s@/"'<>]{1,128}+(?=@[\w.-]{1,255}+[:/(])"""), rf"\1{_REDACTED}"),
    (re.compile(_TOKENS, re.VERBOSE), _REDACTED),
    (
        re.compile(r"""((?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks|webhook\.office\.com)/)[^\s"'<>]+"""),
        rf"\1{_REDACTED}",
    ),
    # These schemes hold several quoted parts, so nothing on the line can be told from them.
    (re.compile(r"(?i)\b(digest|hawk|oauth|aws4-hmac-sha256) [\w-]{1,40}=[^\n]+"), rf"\1 {_REDACTED}"),
    (
        re.compile(
            r"""(?ix) ((?:authorization|cookie) ["'\]\\]{0,4}+ [ \t]{0,9}+ (?:=>|[:=]) [ \t]{0,9}+)
            (?: (["'`]) (?: (?!\2)[^\\] | \\. )++ | (\\++["'])[^"'\\]++ | [^\s"'\\][^\n"']*+ )""",
            re.DOTALL,
        ),
        rf"\1\2\3{_REDACTED}",
    ),
    (
        re.compile(r"(?i)\b(bearer[ \t]{1,9})(?!(?:token|auth|scheme|realm|error|header|credential))[\w.~+/=-]{6,}"),
        rf"\1{_REDACTED}",
    ),
    (
        re.compile(r"\b([Bb]asic[ \t]{1,9})(?=[A-Za-z]{0,99}(?:[0-9+/=]|[a-z][A-Z]))[A-Za-z0-9+/]{6,}={0,2}"),
        rf"\1{_REDACTED}",
    ),
    (
        re.compile(
            rf"(?ix) ({_SECRET_NAME} {_NOT_A_FAILURE} {_AFTER_NAME} {_IS}) {_NO_VALUE} (?!\s|\Z|\\*[\"'`]\s*\Z)"
            rf"(?: {_QUOTED} | {_ESCAPED} | (?= [^\s\"'`&;,)\]}}<] | [,)\]}}](?![\s,;&)\]}}\"'`<]|\Z) ) {_BARE} )",
            re.DOTALL,
        ),
        rf"\1\2\3{_REDACTED}",
    ),
    (
        re.compile(rf"""(?ix) ((?<![\w-])--[\w-]{{0,40}}?{_SECRET_NAME}[\w-]{{0,40}}+["']?,?[ \t]{{1,9}}+["']?)
            [^\s"'-][^\s"']*"""),
        rf"\1{_REDACTED}",
    ),
    (re.compile(r"""(?i)([?&](?:key|code|sig|signature|session|x-amz-\w+)=)[^&#\s"'<>]+"""), rf"\1{_REDACTED}"),
    (re.compile(_PATHS, re.VERBOSE), _keep_url),
)

# Python, and Ruby the other way round: the exception comes after the frames, at the first line that stands further out.
_OUTER = re.compile(r'(?P<indent>[\s|+-]*+)(?:File "[^"\n]*", line \d|(?P<head>.*Traceback \(most recent call last\):))')
_FRAME = re.compile(
    r"""\s+at\s\S.*(?:[)\]>]|:\d+|:line\ \d+)\s*\Z                   # Java, Node, .NET
    | \s*\.\.\.\ \d+\ (?:more|common\ frames)
    | goroutine\ \d+\ \[ | \t\S.*\.go:\d                               # Go
    | \s*from\ \S.*:\d+:in\b | \S[^:\n]*:\d+:in\ [`'][^'\n]*'\s*\Z     # Ruby
    | \#\d+\s+(?:\S.*\(\d+\):|\[internal|\{main\}|0x)                  # PHP, and C
    """,
    re.VERBOSE,
)
_EXCEPTION = re.compile(r"panic: |fatal error: |(?:Error|Exception)\)?(?: \[\w+\])?(?::|\s*\Z)|^\s*[\w$.\\]+[.\\][A-Z]\w*: ")


def clean(text: str) -> str:
    """Return the text without secrets, absolute paths and stack trace, in at most 1,000 characters.

    Only an empty text gives an empty one, and cleaning twice is cleaning once.
    """
    if not text:
        return ""
    for _ in range(_MAX_PASSES):
        # Rules come before the cut, since half a token no longer looks like one.
        cleaned = _pass(text)[:MAX_LENGTH].strip() or _REDACTED
        if cleaned == text:
            return cleaned
        text = cleaned
    return _REDACTED


def _pass(text: str) -> str:
    for pattern, replacement in _HARMLESS:
        text = pattern.sub(replacement, text)
    for pattern in _PEM:
        text = pattern.sub(_REDACTED, text)
    text = _without_stack(text.strip())
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    return text


def _without_stack(text: str) -> str:
    lines = text.split("\n")
    last = next((index for index in reversed(range(len(lines))) if _OUTER.match(lines[index])), None)
    if last is not None:
        return _after_frames(lines, last)
    first = next((index for index, line in enumerate(lines) if _FRAME.match(line)), None)
    return text if first is None else _before_frames(lines[:first])


def _after_frames(lines: list[str], last: int) -> str:
    found = _OUTER.match(lines[last])
    limit = (len(found["indent"]) + (found["head"] is not None)) if found else 0
    for line in lines[last + 1 :]:
        bare = line.lstrip(" \t|+-")
        if bare and len(line) - len(bare) < limit:
            return bare
    return _REDACTED


def _before_frames(lines: list[str]) -> str:
    named = [line for line in lines if _EXCEPTION.search(line) and not line.lstrip().startswith("--->")]
    spoken = [line for line in lines if line.strip()]
    return named[-1] if named else spoken[0] if spoken else _REDACTED
