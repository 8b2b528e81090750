from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from queuelog.clock import parse_timestamp, timestamp
from queuelog.errors import InvalidCursor
from queuelog.job import MAX_ID, Job, JobPriority, JobStatus, canonical_json

if TYPE_CHECKING:
    import sqlite3

    from queuelog.principal import Principal

#: Jobs on one page, at the most.
MAX_PAGE = 100
#: Rows that one page may read; a filter that few jobs pass gives a short page and a cursor, never a long wait.
MAX_ROWS_READ = 10_000
#: Lambda answers at most 6 MB, with the body quoted inside it once more; this leaves room for the rest of the answer.
MAX_PAGE_BYTES = 5_000_000
#: What a job's fields take in such an answer besides its payload and result, at the most: 1,000 characters of error and
#: 255 of idempotency key at up to seven bytes each, 4,096 bytes of progress at two each, names, times, field names.
JOB_BYTES_WITHOUT_PAYLOAD = 20_000


class Order(StrEnum):
    """In which order a list of jobs comes."""

    NEWEST = "newest"
    #: As they will be claimed; for pending jobs alone.
    QUEUE = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; None lets every value pass."""

    status: JobStatus | None = None
    type: str | None = None
    priority: JobPriority | None = None
    visible_to: Principal

    def passes(self, row: sqlite3.Row) -> bool:
        """Say whether a row with status, type, priority, created_by and worker_id is wanted and may be seen."""
        return (
            (self.status is None or row["status"] == self.status)
            and (self.type is None or row["type"] == self.type)
            and (self.priority is None or row["priority"] == self.priority)
            and self.visible_to.may_see(created_by=row["created_by"], worker_id=row["worker_id"])
        )


class Position(NamedTuple):
    """A job's place in a list: what the next page starts after. Only the id counts when the order is newest."""

    id: int
    priority: int = 0
    due_at: str = ""


class Page(NamedTuple):
    """Some jobs of a list, and where the rest begins: None on the last page."""

    jobs: tuple[Job, ...]
    next_cursor: str | None


def encode_cursor(order: Order, position: Position) -> str:
    """Return an opaque text for `position` that is safe in a URL as it is."""
    return base64.urlsafe_b64encode(canonical_json([order, *position]).encode()).decode().rstrip("=")


def decode_cursor(order: Order, cursor: str) -> Position:
    """Return the position in `cursor`; raise InvalidCursor unless `encode_cursor` made it for the same order."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
        made_for, *parts = json.loads(text)
        position = Position(*parts)
        # Comparing the text as well leaves exactly one spelling of each cursor: true is 1 and 1.0 is 1 in Python.
        genuine = made_for == order and encode_cursor(order, position) == cursor and _is_plausible(position)
    except (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError, binascii.Error):
        raise InvalidCursor from None
    if not genuine:
        raise InvalidCursor
    return position


def _is_plausible(position: Position) -> bool:
    return (
        type(position.id) is int
        and type(position.priority) is int
        and type(position.due_at) is str
        and 1 <= position.id <= MAX_ID
        and 0 <= position.priority <= JobPriority.CRITICAL
        and (not position.due_at or timestamp(parse_timestamp(position.due_at)) == position.due_at)
    )
