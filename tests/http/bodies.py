"""Bodies that no route may take; the tests send each of them to every route."""

from __future__ import annotations

MAX_BODY_BYTES = 1_048_576
MAX_BATCH_BODY_BYTES = 4_000_000
#: A body that each function takes.
RIGHT = {
    "enqueue_job": b'{"type": "email"}',
    "claim_job": b"{}",
    "heartbeat_job": b'{"lease_token": "t"}',
    "complete_job": b"{}",
    "fail_job": b'{"error": "the mail server refused the connection"}',
    "release_job": b"{}",
    "cancel_job": b"{}",
    "retry_job": b"{}",
    "enqueue_jobs": b'{"jobs": [{"type": "email"}]}',
    "claim_jobs": b'{"limit": 10}',
    "heartbeat_jobs": b'{"jobs": [{"id": 1, "lease_token": "t"}]}',
    "finish_jobs": b'{"jobs": [{"id": 1, "lease_token": "t", "outcome": "completed"}]}',
    "retry_jobs": b'{"status": "failed"}',
}


def arrays(levels: int) -> bytes:
    """Return a request to enqueue whose payload nests arrays, so that the body has that many levels."""
    deep = levels - 2
    return b'{"type": "email", "payload": {"a": ' + b"[" * deep + b"]" * deep + b"}}"


def objects(levels: int) -> bytes:
    """Return a request to enqueue whose payload nests objects, so that the body has that many levels."""
    deep = levels - 2
    return b'{"type": "email", "payload": {"a": ' + b'{"a": ' * deep + b"1" + b"}" * deep + b"}}"


def sized(size: int) -> bytes:
    """Return a request to enqueue that is right but for its size in bytes."""
    return b'{"type": "email"}'.ljust(size)


NOT_JSON: dict[str, bytes] = {
    "nothing but space": b" \r\n",
    "malformed": b"{",
    "a word": b"nope",
    "single quotes": b"{'type': 'email'}",
    "a trailing comma": b'{"type": "email",}',
    "a comment": b'{"type": "email"} // soon',
    "two objects": b'{"type": "email"} {}',
    "a raw line break in a string": b'{"type": "em\nail"}',
    "a raw NUL in a string": b'{"type": "em\x00ail"}',
    "NUL alone": b"\x00",
    "a form": b"type=email",
    "an array": b"[]",
    "a one-element array": b'[{"type": "email"}]',
    "a number": b"1",
    "a string": b'"email"',
    "null": b"null",
    "NaN": b'{"type": "email", "payload": {"n": NaN}}',
    "Infinity": b'{"type": "email", "payload": {"n": Infinity}}',
    "-Infinity": b'{"type": "email", "max_retries": -Infinity}',
    "a key twice": b'{"type": "email", "type": "pdf"}',
    "a key twice, once escaped": rb'{"type": "email", "\u0074ype": "pdf"}',
    "a key twice in the payload": b'{"type": "email", "payload": {"a": 1, "a": 1}}',
    "a key twice in an array": b'{"type": "email", "payload": {"a": [{"b": 1, "b": 2}]}}',
    "a byte that is no UTF-8": b'{"type": "em\xffail"}',
    "UTF-8 cut short": '{"type": "é"}'.encode()[:-3],
    "an overlong NUL": b'{"type": "\xc0\x80"}',
    "a surrogate in UTF-8": b'{"type": "\xed\xa0\x80"}',
    "UTF-16": '{"type": "email"}'.encode("utf-16"),
    "a byte order mark": '\ufeff{"type": "email"}'.encode(),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    "a lone surrogate": rb'{"type": "\ud800"}',
    "a lone low surrogate in the payload": rb'{"type": "email", "payload": {"a": "x\uDFFFy"}}',
    "a lone surrogate in a key": rb'{"type": "email", "payload": {"\ud83d": 1}}',
    "surrogates in the wrong order": rb'{"type": "email", "payload": {"a": "\ude00\ud83d"}}',
    "a 5,000-digit integer": b'{"type": "email", "payload": {"n": ' + b"7" * 5_000 + b"}}",
    "a negative 5,000-digit integer": b'{"type": "email", "max_retries": -' + b"7" * 5_000 + b"}",
    **{f"{levels:,} levels of arrays": arrays(levels) for levels in (65, 900, 5_000, 100_000)},
    **{f"{levels:,} levels of objects": objects(levels) for levels in (65, 900, 5_000, 100_000)},
    "100,000 open brackets": b"[" * 100_000,
    "100,000 open objects": b'{"a":' * 100_000,
}

#: Content types that are not JSON in UTF-8.
NOT_JSON_TYPES = [
    "",
    "text/plain",
    "text/json",
    "application/jsonx",
    "application/json5",
    "application/json-patch+json",
    "application/problem+json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "application/json, text/plain",
    "application/json; charset=latin-1",
    "application/json; charset=utf-16",
    "application/json; charset=utf-8; charset=utf-16",
    "application/json; charset=",
    "*/*",
    "json",
]
JSON_TYPES = [
    None,
    "application/json",
    "APPLICATION/JSON",
    "Application/Json; Charset=UTF-8",
    "application/json;charset=utf-8",
    'application/json ; charset="utf-8"',
    "application/json; charset=utf8",
    "application/json; version=1",
    "application/json;",
]
#: Bodies that API Gateway never sends, since it makes the base64 itself.
NOT_BASE64 = ["%%%", "e30", "e30=\n", "é30=", "e3\x000", "====", "\ud800"]
