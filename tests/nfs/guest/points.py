"""Where a writer is stopped: each is a moment at which what it has done so far, and what it would do next, matter."""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A call on one of the queue's files, before or after which the writer stops."""

    call: str
    #: How the file's name ends.
    suffix: str
    is_after: bool
    #: 1 is the next such call.
    nth: int = 1
    #: Whether the transaction that it is in, or is to begin, can be durable by then.
    may_be_done: bool = False


#: Stopped by the program itself, before COMMIT, with a page cache so small that most pages have been written.
SPILLED = "half a transaction is written"

#: A transaction with the store's own way on NFS.
TRANSACTION = {
    "the lock is got": Point("lock", "-wal", is_after=True),
    "before the WAL is written": Point("write", "-wal", is_after=False),
    "after the WAL's first write": Point("write", "-wal", is_after=True),
    "in the middle of the WAL's writes": Point("write", "-wal", is_after=False, nth=10),
    "before the WAL's fsync": Point("sync", "-wal", is_after=False),
    "after the WAL's fsync": Point("sync", "-wal", is_after=True, may_be_done=True),
}
#: A checkpoint, which a writer makes after its commit.
CHECKPOINT = {
    "the checkpoint's lock is got": Point("lock", ".db", is_after=True, may_be_done=True),
    "before the file is written": Point("write", ".db", is_after=False, may_be_done=True),
    "after the file's first write": Point("write", ".db", is_after=True, may_be_done=True),
    "in the middle of the file's writes": Point("write", ".db", is_after=False, nth=10, may_be_done=True),
    "before the file's fsync": Point("sync", ".db", is_after=False, may_be_done=True),
    "after the file's fsync": Point("sync", ".db", is_after=True, may_be_done=True),
    "before the WAL is cut": Point("truncate", "-wal", is_after=False, may_be_done=True),
    "after the WAL is cut": Point("truncate", "-wal", is_after=True, may_be_done=True),
}
#: Stock SQLite in PERSIST: its journal is a second file, which no lock fences.
STOCK = {"before the journal's fsync": Point("sync", "-journal", is_after=False)}

POINTS = TRANSACTION | CHECKPOINT | STOCK
