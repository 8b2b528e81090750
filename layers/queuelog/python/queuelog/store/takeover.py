"""How a file becomes one that hosts share: an empty one, or one with a rollback journal, as the first release made it.

Every step is in order whoever dies after it, and the last one is a single write. Until then the file is one with a
rollback journal; afterwards it is in WAL mode, and whoever had it open before finds the names beside it barred.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from queuelog.errors import DatabaseCorrupt, NotADatabase, UnsafeJournalMode
from queuelog.store import migrations
from queuelog.store.file_lock import lock
from queuelog.store.unlocked import UnlockedConnection, connect

if TYPE_CHECKING:
    from pathlib import Path

#: What an ordinary SQLite opens beside a file in WAL mode, and beside any other.
BARRED = ("-shm", "-journal")
#: Nothing can be opened or made below a device.
NOWHERE = "/dev/null/this-file-is-shared--copy-it-with--python-m-queuelog-snapshot"

_MAGIC = b"SQLite format 3\0"
_WAL_ON_NETWORK = (
    "The database is in SQLite's WAL mode as on a local disk, which is not safe on a network file system: stop every "
    "user of the file, then convert it on one host with: sqlite3 FILE 'PRAGMA journal_mode = DELETE'"
)


class Header(NamedTuple):
    """What the first 100 bytes of a database say (https://sqlite.org/fileformat2.html, section 1.3)."""

    is_wal: bool
    application_id: int

    @classmethod
    def read(cls, descriptor: int) -> Header | None:
        """Read an open file's header; None if the file is empty; raise NotADatabase or DatabaseCorrupt."""
        data = os.pread(descriptor, 100, 0)
        if not data:
            return None
        # SQLite draws the line behind the size of a page, which follows.
        if not data.startswith(_MAGIC) or len(data) < 18:
            raise NotADatabase
        if len(data) < 100:
            raise DatabaseCorrupt
        return cls(
            is_wal=data[18] == 2 or data[19] == 2,
            application_id=struct.unpack_from(">I", data, 68)[0],
        )


def is_shared(path: Path) -> bool:
    """Say whether a file is, or was about to be, one that hosts share: then no other way to use it is safe."""
    # As SQLite does, which looks beside the file that a link leads to.
    return any(beside(path.resolve(), suffix).is_symlink() for suffix in BARRED)


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that SQLite keeps beside a database."""
    return path.with_name(path.name + suffix)


def refuse_what_is_not_ours(path: Path) -> None:
    """Raise StorageUnusable for a file that must stay as it is, and touch nothing."""
    header = _header(path)
    if header is None:
        return
    if header.is_wal and not is_shared(path):
        raise UnsafeJournalMode(_WAL_ON_NETWORK)
    if header.application_id != migrations.APPLICATION_ID:
        # Without a lock and without a look at any journal: enough to tell whose it is.
        with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
            migrations.pending(connection)


def take_over(path: Path, wal: int, deadline: float) -> None:
    """Make a file one that hosts share, if it isn't yet; the caller holds the lock on `wal` exclusively.

    Waits until `time.monotonic()` is `deadline` for ordinary transactions; raises StorageError, OSError, sqlite3.Error.
    """
    header = _header(path)
    if header is not None and header.is_wal and is_shared(path):
        _bar(path)
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        header = Header.read(descriptor)
        if header is None or not header.is_wal:
            # In these bytes ordinary SQLites have their locks, so from here on nobody has a transaction open.
            lock(descriptor, shared=False, deadline=deadline)
            header = Header.read(descriptor)
        if header is not None and header.is_wal:
            if not is_shared(path):
                raise UnsafeJournalMode(_WAL_ON_NETWORK)
            _bar(path)
            return
        if os.fstat(wal).st_size:
            raise UnsafeJournalMode(
                f"{path.name}-wal belongs to another database than the one beside it: move it away, or the file."
            )
        # Closing the connection gives up the lock on the file, so all the rest comes before that.
        with closing(_with_rollback_journal(path)) as connection:
            migrations.pending(connection)
            if header is None:
                connection.set("application_id", migrations.APPLICATION_ID)
            # A host that was cut off in the middle of an ordinary transaction may come back: its journal is then a
            # file without a name, or can't be opened, and nobody plays it back.
            _bar(path)
            _say_wal(descriptor)
    finally:
        os.close(descriptor)


def _header(path: Path) -> Header | None:
    """Read a file's header; None if there is no file, or an empty one; raise NotADatabase."""
    # For reading alone. A host whose late writes were refused remembers that, and whatever was opened for writing is
    # told so when it is closed, each time anew until somebody syncs the file.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return Header.read(descriptor)
    finally:
        os.close(descriptor)


def _with_rollback_journal(path: Path) -> UnlockedConnection:
    # O_CREAT goes to the server; a mere look would be answered from what this host remembers of the directory, and a
    # journal that another one has left would not be seen.
    journal = beside(path, "-journal")
    if not journal.is_symlink():
        os.close(os.open(journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    connection = connect(path)
    try:
        # The first look, which rolls back what a crash left half done, comes after the mode: deleting the journal
        # is what other hosts would not see.
        connection.set("journal_mode", "PERSIST")
        connection.set("synchronous", "FULL")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _bar(path: Path) -> None:
    open_names = [name for suffix in BARRED if not (name := beside(path, suffix)).is_symlink()]
    if not open_names:
        return
    for name in open_names:
        link = beside(name, "-new")
        link.unlink(missing_ok=True)
        link.symlink_to(NOWHERE)
        link.replace(name)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _say_wal(descriptor: int) -> None:
    """Set the header's journal mode, and its change counter, by which an open connection sees that the file changed.

    The counter's second place says that the file's size in pages, between the two, is that of this change.
    """
    data = bytearray(os.pread(descriptor, 96, 0))
    data[18:20] = b"\x02\x02"
    (counter,) = struct.unpack_from(">I", data, 24)
    for place in (24, 92):
        struct.pack_into(">I", data, place, (counter + 1) % 2**32)
    os.pwrite(descriptor, data[18:96], 18)
    os.fsync(descriptor)
