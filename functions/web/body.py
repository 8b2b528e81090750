from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from queuelog.job import MAX_DEPTH, canonical_json, is_deeper_than
from web.problems import InvalidJson, PayloadTooLarge, UnsupportedMediaType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_BODY_BYTES = 1_048_576
#: Lambda takes 6 MB of event, and base64 makes this 5.3 of them.
MAX_BATCH_BODY_BYTES = 4_000_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_body(event: Mapping[str, Any], content_type: str | None, max_bytes: int = MAX_BODY_BYTES) -> str:
    """Return the body's text, empty if there is none; raise PayloadTooLarge, UnsupportedMediaType or InvalidJson.

    API Gateway takes every body as binary (the template's BinaryMediaTypes), so its bytes arrive as they were sent.
    """
    body = event.get("body") or ""
    if not body:
        return ""
    # A body in base64 is four thirds as long; looking at that first spares decoding what is too large anyway.
    if len(body) > max_bytes * 3 // 2:
        raise PayloadTooLarge(_too_large(max_bytes))
    if event.get("isBase64Encoded"):
        try:
            raw = base64.b64decode(body, validate=True)
        except ValueError:
            raise InvalidJson("The body is not valid base64.") from None
    else:
        raw = body.encode(errors="surrogatepass")
    if len(raw) > max_bytes:
        raise PayloadTooLarge(_too_large(max_bytes))
    if raw and not _is_json(content_type):
        raise UnsupportedMediaType
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidJson(f"The body is not UTF-8: look at byte {error.start}.") from None


def strict_object(text: str) -> dict[str, Any]:
    """Return the one JSON object in `text`; raise InvalidJson for anything else, and for what readers disagree on.

    That is NaN and Infinity, a key twice in an object, lone surrogates, and more than 64 levels (RFC 8259, section 9
    lets a reader set such limits; RFC 7493 asks writers not to go near them).
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if is_deeper_than(value, MAX_DEPTH):
            raise InvalidJson(f"The body may nest {MAX_DEPTH} levels at most.")
    except json.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error.msg} at character {error.pos}.") from None
    except RecursionError:
        raise InvalidJson(f"The body may nest {MAX_DEPTH} levels at most.") from None
    except ValueError:
        # Python refuses to read integers of more than 4,300 digits, since that takes quadratic time.
        raise InvalidJson("The body holds an integer with too many digits.") from None
    if not isinstance(value, dict):
        raise InvalidJson
    if _SURROGATE.search(text) and _has_lone_surrogate(value):
        raise InvalidJson("The body holds a lone surrogate, which is no character.")
    return value


def _too_large(max_bytes: int) -> str:
    return f"The body is over {max_bytes} bytes."


def _is_json(content_type: str | None) -> bool:
    if content_type is None:
        return True
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = [part for part in parameters if part.startswith("charset")]
    return media_type == "application/json" and all(
        re.fullmatch(r'charset="?utf-?8"?', charset) for charset in charsets
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJson("The body holds an object with the same key twice.")
    return found


def _refuse_constant(name: str) -> None:
    raise InvalidJson(f"The body holds {name}, which is not JSON.")


def _has_lone_surrogate(value: dict[str, Any]) -> bool:
    try:
        canonical_json(value, sort_keys=False).encode()
    except UnicodeEncodeError:
        return True
    return False
