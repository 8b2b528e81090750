"""What a payload must be: a sentence for whoever sent another, and no retry, which would find the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queuelog_client import Permanent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def only(payload: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise Permanent if there are fields that nobody reads: one of them is a known one, misspelt."""
    unknown = sorted(set(payload) - set(known))
    if unknown:
        raise Permanent(f"The payload has unknown fields: {', '.join(unknown)}. Known are {', '.join(known)}.")


def text(payload: Mapping[str, Any], name: str, *, most: int, default: str | None = None) -> str:
    """Return a text of 1 to `most` characters, or the default if it is left out; raise Permanent."""
    value = payload.get(name, default)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise Permanent(f"The payload's {name} must be a text of 1 to {most:,} characters.")
    return value


def line(payload: Mapping[str, Any], name: str, *, most: int) -> str:
    """Return a text as `text` does, in one line; raise Permanent."""
    value = text(payload, name, most=most)
    if not value.isprintable():
        raise Permanent(f"The payload's {name} must be one line of printable characters.")
    return value
