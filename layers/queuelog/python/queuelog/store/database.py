from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

from queuelog.errors import DatabaseCorrupt, SQLiteTooOld, StorageBusy
from queuelog.store import migrations
from queuelog.store.failures import is_sound, named, primary_code
from queuelog.store.file_system import is_network_file_system
from queuelog.store.local_file import LocalFile
from queuelog.store.network_file import NetworkFile
from queuelog.store.takeover import is_shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

OLDEST_SQLITE = (3, 40, 0)
#: Seconds to wait for other writers. Less than a function's time-out, so that the caller gets an answer.
BUSY_TIMEOUT = 5.0


class Database:
    """The queue's file, in the way that is safe on its file system, and its transactions.

    That is a LocalFile on a local disk, and a NetworkFile where other hosts may share the file
    (docs/decisions/sqlite-on-nfs.md). Opens at the first transaction, since a Lambda function must not do I/O at
    import, and again after an I/O error. Threads take turns.
    """

    def __init__(self, path: Path, *, network: bool | None = None, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._network = network
        self._choice = threading.Lock()
        self._chosen: LocalFile | NetworkFile | None = None
        self._connection: sqlite3.Connection | None = None
        self._is_reading = False
        self._is_migrated = False
        self._are_migrations_finished = False
        self._has_counts = False

    def write(self) -> Transaction:
        """Run the block as one write transaction; raise StorageError when it could not be."""
        return Transaction(self, "BEGIN IMMEDIATE")

    def read(self) -> Transaction:
        """Run the block as one read transaction, which sees one state of the file; raise StorageError likewise."""
        return Transaction(self, "BEGIN")

    def finish_migrations(self) -> None:
        """Do what a migration leaves to the sweep; raise StorageError. It takes as long as the file is large."""
        if self._are_migrations_finished:
            return
        with self.read() as connection:
            needed = migrations.pending(connection)
        if needed:
            with self.write() as connection:
                migrations.apply(connection, migrations.pending(connection))
        self._are_migrations_finished = True

    def has_counts(self, connection: sqlite3.Connection) -> bool:
        """Say whether the indexes and counters are there that the sweep makes after an upgrade."""
        self._has_counts = self._has_counts or migrations.Version.of(connection) >= migrations.COUNTS
        return self._has_counts

    def checkpoint(self) -> None:
        """Move what was last written to where it is read in one step; raise StorageError."""
        self._alone(self._file.checkpoint)

    def back_up(self, copy: Path) -> None:
        """Write a consistent copy and check it, while others go on; raise StorageError."""
        with self.read():
            pass
        self._alone(lambda: self._file.back_up(copy))

    def close(self) -> None:
        """Close the file; the next transaction opens it again."""
        self._alone(self._discard)

    def begin(self, statement: str) -> sqlite3.Connection:
        """Wait for this file's turn, and start a transaction; raise StorageError, and leave no lock then."""
        self._file.turn.acquire()
        try:
            self._is_reading = statement == "BEGIN"
            connection = self._connection = self._acquire(shared=self._is_reading)
            connection.execute(statement)
        except BaseException as error:
            self.end(error)
            raise
        return connection

    def end(self, error: BaseException | None) -> None:
        """Commit, or roll back after an error; raise StorageError where that, or the error itself, is one."""
        # A frozen sandbox that holds a lock stops every other one, so none is held after this, whatever happens.
        try:
            if error is None and self._connection is not None:
                self._commit(self._connection)
                if self._is_reading:
                    self._file.confirm()
            elif isinstance(error, sqlite3.Error):
                self._raise_named(error)
        finally:
            self._connection = None
            self._file.release()
            self._file.turn.release()

    @property
    def _file(self) -> LocalFile | NetworkFile:
        # Two threads must not get two files, each with a turn of its own.
        with self._choice:
            if self._chosen is None:
                self._chosen = self._choose()
            return self._chosen

    def _choose(self) -> LocalFile | NetworkFile:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise SQLiteTooOld(f"Queuelog needs SQLite 3.40 or newer; this Python has {sqlite3.sqlite_version}.")
        network = is_network_file_system(self.path) if self._network is None else self._network
        kind = NetworkFile if network or is_shared(self.path) else LocalFile
        return kind(self.path, self._busy_timeout)

    def _acquire(self, *, shared: bool) -> sqlite3.Connection:
        connection = self._file.acquire(shared=shared)
        if not self._is_migrated:
            if migrations.due_at_once(connection):
                self._file.release()
                _migrate(self._file.acquire(shared=False))
                self._file.release()
                connection = self._file.acquire(shared=shared)
            self._is_migrated = True
        connection.row_factory = sqlite3.Row
        return connection

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._raise_named(error)
            raise

    def _raise_named(self, error: sqlite3.Error) -> None:
        name = named(error)
        if name is None:
            return
        code = primary_code(error)
        # A local file on a full disk can be read as long as it is open; opening it needs room.
        if not isinstance(name, StorageBusy) and code != sqlite3.SQLITE_FULL:
            # On a network file system an I/O error can mean that our lock is lost: nothing cached may be believed.
            self._discard()
            if code == sqlite3.SQLITE_CORRUPT and not self._is_sound_at_a_fresh_look():
                raise DatabaseCorrupt from error
        raise name from error

    def _is_sound_at_a_fresh_look(self) -> bool:
        try:
            return is_sound(self._file.acquire(shared=False))
        except StorageBusy:
            return True
        except sqlite3.Error:
            return False
        finally:
            self._discard()

    def _alone(self, action: Callable[[], None]) -> None:
        with self._file.turn:
            try:
                action()
            except sqlite3.Error as error:
                self._raise_named(error)
                raise

    def _discard(self) -> None:
        self._is_migrated = self._are_migrations_finished = False
        self._file.discard()


class Transaction:
    """A block that is one transaction; a class rather than a generator, for every verb passes through it."""

    __slots__ = ("_begin", "_database")

    def __init__(self, database: Database, begin: str) -> None:
        self._database = database
        self._begin = begin

    def __enter__(self) -> sqlite3.Connection:
        return self._database.begin(self._begin)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._database.end(error)


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again under the lock: another sandbox may have done it meanwhile.
        migrations.apply(connection, migrations.due_at_once(connection))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
