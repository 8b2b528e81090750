from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from queuelog.errors import (
    DatabaseCorrupt,
    NotADatabase,
    SQLiteTooOld,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    UnsafeJournalMode,
)
from queuelog.store import migrations
from queuelog.store.file_system import is_network_file_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

OLDEST_SQLITE = (3, 40, 0)
#: Seconds to wait for other writers. Less than a function's time-out, so that the caller gets an answer.
BUSY_TIMEOUT = 5.0

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_UNAVAILABLE = {
    sqlite3.SQLITE_CANTOPEN: "The database can't be opened: its directory must exist and be writable for this user.",
    sqlite3.SQLITE_FULL: "The file system is full: nothing was changed. Make room, then repeat the request.",
    sqlite3.SQLITE_IOERR: None,
    sqlite3.SQLITE_NOLFS: None,
    sqlite3.SQLITE_PERM: "The database can't be opened: this user may not read and write it.",
    sqlite3.SQLITE_PROTOCOL: None,
    sqlite3.SQLITE_READONLY: "The database can't be written: the file or its file system is read-only for this user.",
}


#: A forked child must not use its parent's connections, nor close them, as the garbage collector would
#: (https://sqlite.org/howtocorrupt.html, section 2.6).
_INHERITED: list[sqlite3.Connection] = []


class Database:
    """One connection to one SQLite file, in the way that is safe on the file's file system.

    On a local disk that is WAL. On a network file system it is the PERSIST rollback journal: WAL's shared memory can't
    work between hosts, and with DELETE or TRUNCATE a host that has cached "there is no journal" reads half a
    transaction after another host's crash (docs/decisions/sqlite-on-nfs.md).

    Opens at the first transaction, since a Lambda function must not do I/O at import, and again after an I/O error.
    Threads take turns. On a network file system a process may have one Database for a file: closing any descriptor of
    it drops the POSIX locks that the process holds on it (https://sqlite.org/howtocorrupt.html, section 2.2).
    """

    def __init__(self, path: Path, *, network: bool | None = None, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._network = network
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._has_counts = False
        self._turn = threading.Lock()

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """Run the block as one write transaction; raise StorageError when it could not be."""
        return self._transaction("BEGIN IMMEDIATE")

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Run the block as one read transaction, which sees one state of the file; raise StorageError likewise."""
        return self._transaction("BEGIN")

    def finish_migrations(self) -> None:
        """Do what a migration leaves to the sweep; raise StorageError. It takes as long as the file is large."""
        with self.read() as connection:
            needed = migrations.pending(connection)
        if needed:
            with self.write() as connection:
                migrations.apply(connection, migrations.pending(connection))

    def has_counts(self, connection: sqlite3.Connection) -> bool:
        """Say whether the indexes and counters are there that the sweep makes after an upgrade."""
        self._has_counts = self._has_counts or migrations.Version.of(connection) >= migrations.COUNTS
        return self._has_counts

    def back_up(self, copy: Path) -> None:
        """Write a consistent copy with SQLite's backup API and check it; raise StorageError.

        With WAL others go on meanwhile; with PERSIST a writer, and whoever comes after it, waits until all is read.
        """
        with self._turn, closing(sqlite3.connect(copy, isolation_level=None)) as target:
            try:
                # Unlike a transaction it asks again for as long as others keep the file busy.
                self._opened().backup(target)
            except sqlite3.Error as error:
                self._raise_named(error)
                raise
            if not is_sound(target):
                raise DatabaseCorrupt

    def close(self) -> None:
        """Close the file; the next transaction opens it again."""
        with self._turn:
            self._discard()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        # A frozen sandbox that holds a lock stops every other one, so no transaction outlives its block.
        with self._turn:
            try:
                connection = self._opened()
                connection.execute(begin)
                if self._network:
                    _refuse_wal(connection)
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._raise_named(error)
                raise
            except UnsafeJournalMode:
                # An open connection would stand in the way of the conversion that the message asks for.
                self._discard()
                raise
            finally:
                self._roll_back()

    def _opened(self) -> sqlite3.Connection:
        if self._owner != os.getpid():
            self._discard()
        if self._connection is None:
            self._connection, self._owner = self._open(), os.getpid()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise SQLiteTooOld(f"Queuelog needs SQLite 3.40 or newer; this Python has {sqlite3.sqlite_version}.")
        if self._network is None:
            self._network = is_network_file_system(self.path)
        if self._network:
            _refuse_wal_header(self.path)
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            if self._network:
                self._use_persist(connection)
            # Before WAL, which is kept in the file: what belongs to another application must stay as it is.
            needed = migrations.due_at_once(connection)
            if not self._network:
                self._use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            # An I/O error in mapped memory is a SIGBUS, not an error that can be answered.
            connection.execute("PRAGMA mmap_size = 0")
            connection.execute("PRAGMA temp_store = MEMORY")
            if needed:
                _migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # Turning a file to WAL takes an exclusive lock without waiting for it, so two that open a new file collide.
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if _primary_code(error) not in _BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                break
        if mode != "wal":
            raise UnsafeJournalMode(f"The file system doesn't support SQLite's WAL (the journal mode stayed {mode}).")

    def _use_persist(self, connection: sqlite3.Connection) -> None:
        # The first look at a file rolls a crashed writer's journal back, in the mode known by then. Setting the mode
        # would be that first look, and would still delete the journal; in exclusive locking mode it looks at nothing.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA locking_mode = NORMAL")
        if sys.version_info >= (3, 12):
            # Should the file turn out to be in WAL all the same, closing it must not write the WAL back.
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)

    def _raise_named(self, error: sqlite3.Error) -> None:
        code = _primary_code(error)
        if code in _BUSY:
            raise StorageBusy from error
        if code == sqlite3.SQLITE_NOTADB:
            self._discard()
            raise NotADatabase from error
        if code == sqlite3.SQLITE_CORRUPT:
            self._discard()
            raise self._corrupt_or_lock_lost() from error
        if code in _UNAVAILABLE:
            # On a network file system an I/O error can mean that our lock is lost: nothing cached may be believed.
            self._discard()
            raise StorageUnavailable(_UNAVAILABLE[code]) from error

    def _corrupt_or_lock_lost(self) -> StorageError:
        # A client that lost its lock sees "malformed" where the file is sound, so a fresh look decides.
        try:
            with closing(self._open()) as connection:
                lock_lost = is_sound(connection)
        except sqlite3.Error:
            lock_lost = False
        return StorageUnavailable() if lock_lost else DatabaseCorrupt()

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._discard()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._owner != os.getpid():
            _INHERITED.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()


def is_sound(connection: sqlite3.Connection) -> bool:
    """Say whether SQLite finds every page of a database as it should be."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError:
        return False
    return str(verdict) == "ok"


def _primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again under the lock: another sandbox may have done it meanwhile.
        migrations.apply(connection, migrations.due_at_once(connection))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _refuse_wal_header(path: Path) -> None:
    # SQLite offers no look at a file's journal mode that would not already use it, so this reads the two bytes that
    # keep it (https://sqlite.org/fileformat.html, section 1.3) before there is a connection whose locks it could drop.
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return
    if header[18:20] == b"\x02\x02":
        raise UnsafeJournalMode(_WAL_ON_NETWORK)


def _refuse_wal(connection: sqlite3.Connection) -> None:
    # Another release may have converted the file while this connection was open. SQLite tells the mode from memory, so
    # a look at the file comes first; the transaction needs its lock in any case.
    connection.execute("PRAGMA user_version").fetchone()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "persist":
        raise UnsafeJournalMode(_WAL_ON_NETWORK)


_WAL_ON_NETWORK = (
    "The database is in SQLite's WAL mode, which is not safe on a network file system: stop every user of the file, "
    "then convert it on one host with: sqlite3 FILE 'PRAGMA journal_mode = DELETE'"
)
