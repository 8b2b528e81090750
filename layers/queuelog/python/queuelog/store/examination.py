"""What a queue's file looks like to a stranger, who changes nothing: facts for whoever has to say what is wrong.

Not for a process that has the file open: closing a descriptor of it gives up the locks that SQLite has there.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from queuelog.clock import parse_timestamp, timestamp
from queuelog.store import migrations
from queuelog.store.database import OLDEST_SQLITE
from queuelog.store.file_lock import BYTES, FIRST_BYTE, try_lock, unlock
from queuelog.store.takeover import Header, beside, is_shared

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

#: What integrity_check says at the most.
MOST_FAULTS = 5
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER, _FRAME_HEADER = 32, 24
_REFUSED = 3
#: A fresh interpreter, for a lock is a process's own, and a fork may be of one with threads.
_OTHER_PROCESS = f"""
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, {BYTES}, {FIRST_BYTE})
except OSError:
    sys.exit({_REFUSED})
"""


class Form(NamedTuple):
    """How a file is kept."""

    is_shared: bool
    #: None for an empty file.
    is_wal: bool | None


class Log(NamedTuple):
    """The WAL beside a file."""

    bytes: int
    is_readable: bool
    #: Whether it ends within a frame, as after a writer's death.
    is_torn: bool
    #: Frames that its index knows, and that are no longer there.
    lost_frames: int


class Content(NamedTuple):
    """What a copy of a queue holds."""

    version: migrations.Version
    pending: tuple[migrations.Version, ...]
    #: SQLite's own words for pages that are not as they should be.
    faults: tuple[str, ...]
    jobs: int
    newest: datetime | None
    #: Running jobs whose leases ended before the time asked for.
    overdue: int


def sqlite_version() -> tuple[str, bool]:
    """Return SQLite's version, and whether a queue can be used with it."""
    return sqlite3.sqlite_version, sqlite3.sqlite_version_info >= OLDEST_SQLITE


def form_of(path: Path) -> Form:
    """Read a file's header; raise NotADatabase, DatabaseCorrupt, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header = Header.read(descriptor)
    finally:
        os.close(descriptor)
    return Form(is_shared(path), None if header is None else header.is_wal)


def is_half_done(path: Path) -> bool:
    """Say whether a rollback journal beside a file holds a transaction that has not ended; raise OSError."""
    journal = beside(path, "-journal")
    if journal.is_symlink() or not journal.exists():
        return False
    with journal.open("rb") as file:
        return file.read(len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC


def log_of(path: Path) -> Log | None:
    """Look at the WAL beside a file, None if there is none; raise OSError."""
    # The index first: a log grows until a checkpoint empties both.
    known = _frames_known(path)
    try:
        with beside(path, "-wal").open("rb") as file:
            start = file.read(_WAL_HEADER)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    if not size:
        return Log(0, is_readable=True, is_torn=False, lost_frames=known)
    if len(start) < _WAL_HEADER or struct.unpack_from(">I", start)[0] not in _WAL_MAGIC:
        return Log(size, is_readable=False, is_torn=False, lost_frames=known)
    (page,) = struct.unpack_from(">I", start, 8)
    frames, rest = divmod(size - _WAL_HEADER, _FRAME_HEADER + page)
    return Log(size, is_readable=True, is_torn=rest > 0, lost_frames=max(0, known - frames))


def locks_exclude(directory: Path) -> bool:
    """Say whether a lock that this process has on a file in the directory keeps another process out; raise OSError."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="queuelog-doctor-") as scratch:
        command = [sys.executable, "-I", "-S", "-c", _OTHER_PROCESS, scratch.name]
        is_ours = try_lock(scratch.fileno(), shared=False)
        held = subprocess.run(command, check=False).returncode  # noqa: S603  our own words alone
        unlock(scratch.fileno())
        free = subprocess.run(command, check=False).returncode  # noqa: S603
    return is_ours and (held, free) == (_REFUSED, 0)


def content_of(copy: Path, leases_ended_before: datetime) -> Content:
    """Look through a copy that nobody else has; raise SchemaTooNew, NotADatabase."""
    with closing(sqlite3.connect(copy)) as connection:
        try:
            return _content(connection, leases_ended_before)
        except sqlite3.DatabaseError as error:
            return Content(migrations.Version(0, 0), (), (str(error),), jobs=0, newest=None, overdue=0)


def _content(connection: sqlite3.Connection, leases_ended_before: datetime) -> Content:
    needed = tuple(each.version for each in migrations.pending(connection))
    version = migrations.Version.of(connection)
    said = connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})").fetchall()
    faults = tuple(str(each) for (each,) in said if each != "ok")
    if faults or len(needed) == len(migrations.load()):
        return Content(version, needed, faults, jobs=0, newest=None, overdue=0)
    (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
    last = connection.execute("SELECT created_at FROM jobs ORDER BY id DESC LIMIT 1").fetchone()
    overdue = 0
    if version >= migrations.LEASES:
        (overdue,) = connection.execute(
            "SELECT count(*) FROM jobs WHERE status = 'running' AND lease_expires_at < ?",
            (timestamp(leases_ended_before),),
        ).fetchone()
    return Content(version, needed, (), jobs, parse_timestamp(last[0]) if last else None, overdue)


def _frames_known(path: Path) -> int:
    """Return how many frames the index of a WAL knows, 0 when the file itself has all that they hold."""
    index = beside(path, "-shm")
    if index.is_symlink() or not index.exists():
        return 0
    with index.open("rb") as file:
        start = file.read(100)
    # Two copies of one header (https://sqlite.org/walformat.html, section 2.1); while they differ it is being written.
    if len(start) < 100 or start[:48] != start[48:96] or not start[12]:
        return 0
    (frames,) = struct.unpack_from("=I", start, 16)
    # What a checkpoint has moved into the file is lost to nobody.
    (moved,) = struct.unpack_from("=I", start, 96)
    return int(frames) if frames > moved else 0
