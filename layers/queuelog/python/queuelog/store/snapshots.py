"""A file that holds a whole queue and is nobody's yet: how it is taken, checked, and put in the place of another."""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from queuelog.errors import DatabaseCorrupt, NotADatabase, StorageBusy, StorageUnavailable
from queuelog.store import migrations
from queuelog.store.database import BUSY_TIMEOUT
from queuelog.store.failures import is_sound
from queuelog.store.network_file import NetworkFile
from queuelog.store.takeover import beside, is_shared

#: What SQLite keeps beside a database: part of it, and the ruin of another one in its place.
COMPANIONS = ("-journal", "-shm", "-wal")


def take(source: Path, copy: Path) -> int:
    """Copy a queue's file, which may be in use, whole or not at all, and check the copy; return how many jobs it holds.

    Raises StorageError, FileExistsError rather than overwrite anything, and OSError if the copy can't be written.
    """
    if copy.exists():
        raise FileExistsError(f"{copy} is there already: name another file.")
    with tempfile.TemporaryDirectory(dir=copy.parent, prefix=f"{copy.name}-") as directory:
        unchecked = Path(directory) / copy.name
        copy_file(source, unchecked)
        jobs = check(unchecked)
        unchecked.rename(copy)
    return jobs


def copy_file(source: Path, copy: Path) -> None:
    """Copy a queue's file, which may be in use; raise StorageError, or OSError if the copy can't be written."""
    if is_shared(source):
        NetworkFile(source, BUSY_TIMEOUT).back_up(copy)
        return
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as connection,
            closing(sqlite3.connect(copy)) as target,
        ):
            connection.backup(target)
    except sqlite3.OperationalError as error:
        raise StorageUnavailable(f"{source} can't be read ({error}).") from error
    except sqlite3.DatabaseError as error:
        raise NotADatabase(f"{source} is not a queue ({error}).") from error


def check(copy: Path) -> int:
    """Return how many jobs a queue's file holds that nobody else has open; raise StorageUnusable unless it is sound."""
    try:
        with closing(sqlite3.connect(copy)) as connection:
            migrations.pending(connection)
            if not is_sound(connection):
                raise DatabaseCorrupt("It is damaged.")
            (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
            # In one file alone, and of use on a network file system too; a store on a local disk puts it back into WAL.
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise NotADatabase(f"It is not a queue ({error}).") from error
    return int(jobs)


def require_unused(path: Path) -> None:
    """Raise StorageBusy if somebody uses the file; what can't be opened at all is not in use.

    Of a file that hosts share nobody can tell but for the length of a transaction.
    """
    if not path.exists():
        return
    if is_shared(path):
        file = NetworkFile(path, busy_timeout=0)
        with suppress(sqlite3.Error, StorageUnavailable):
            file.acquire(shared=False)
        file.discard()
        return
    try:
        with closing(sqlite3.connect(path, timeout=0)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StorageBusy(f"{path} is in use: stop whatever has it open, then try again.") from error


def put_in_place(copy: Path, path: Path) -> Path | None:
    """Make `copy` the file at `path`, in whose directory it lies; return where the old file now is, if there was one.

    Nobody may have either open: a file that changes under an open connection is a corrupt one. Raises OSError.
    """
    kept = next(
        each
        for each in (path.with_name(f"{path.name}.before-restore-{number}") for number in itertools.count(1))
        if not each.exists()
    )
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    was_there = path.exists()
    # Even without the database: SQLite would take them for what a crash has left of the new one.
    for companion in (*COMPANIONS, ""):
        old = beside(path, companion)
        if os.path.lexists(old):
            old.replace(beside(kept, companion))
    copy.replace(path)
    return kept if was_there else None
