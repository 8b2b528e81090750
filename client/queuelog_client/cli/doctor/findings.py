"""What a check found: one line for people, one object for programs."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is: a warning works today, a fault doesn't."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


class Finding(NamedTuple):
    """What was found, and what to do about it."""

    check: str
    level: Level
    what: str
    advice: str | None


def ok(check: str, what: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(check, Level.OK, what, None)


def warning(check: str, what: str, advice: str) -> Finding:
    """Return that something will be wrong, or is not as good as it could be."""
    return Finding(check, Level.WARNING, what, advice)


def fault(check: str, what: str, advice: str) -> Finding:
    """Return that something is wrong."""
    return Finding(check, Level.FAULT, what, advice)
