"""How one SQLite file is used from many hosts over a network file system.

SQLite's own ways fail there. Ordinary WAL needs memory that all its users share, and hosts share none. A rollback
journal is a second file that no lock covers: a host that was cut off in the middle of a commit, for so long that the
server gave its locks to others, comes back and writes its old journal, and the next opener "rolls back" what others
have committed since. So here:

- The file is in WAL mode, with the WAL's index in the process's own memory (`locking_mode = EXCLUSIVE`), and SQLite
  takes no locks itself (`vfs=unix-none`).
- One POSIX lock on the WAL covers a whole transaction: exclusive for a writer, shared for a reader. A commit writes
  the WAL alone, so that a host which has lost the lock gets an I/O error from the very file that it would write.
- A connection lives for one transaction: nothing that it knew outlives the lock. Whoever opens the file makes the
  index anew from the WAL, which writes nothing; half a transaction at the WAL's end is not read.
- A writer that has made the WAL long moves it into the database file (a checkpoint). For that it holds an exclusive
  lock on the database file, too.

What this rests on; each of these lost data when it was left out:

- Taking a POSIX lock empties what the host has cached of that file, so the WAL is read under its lock alone.
- No descriptor of the database file stays open between transactions: while a host has a file open for writing, it
  doesn't notice what others write there.
- Closing any descriptor of a file gives up all locks that the process has on it. So the threads and stores of one
  process take turns, the connection is closed first (which already ends the lock), and nobody else opens these files.

An ordinary SQLite must not join in, for it would take other locks. SQLite opens `-shm` beside a file in WAL mode, and
`-journal` beside any other; both names are links that lead nowhere, so that it fails ("unable to open database file").
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from queuelog.errors import DatabaseCorrupt, PythonTooOld, StorageBusy, StorageUnavailable
from queuelog.store.failures import is_sound, unavailable
from queuelog.store.file_lock import lock, try_lock, unlock
from queuelog.store.takeover import beside, refuse_what_is_not_ours, take_over
from queuelog.store.unlocked import UnlockedConnection, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A writer makes a checkpoint when the WAL has more bytes than this, and than so many transactions like its own write,
#: or more than one round trip reads (the mount's rsize). Every transaction reads the whole WAL, and EFS counts its
#: bytes; a checkpoint costs some twenty trips, and what every host has cached of the file.
LONG_WAL, TRANSACTIONS, ONE_READ = 256 * 1024, 8, 1024 * 1024
#: Seconds for which a process leaves the lock alone after it had it, or half of the time it had it, if that is less.
#: Without, those who poll would seldom meet the moment between two transactions of a busy caller.
REST = 0.005

#: Seconds for which a reader is sure of its lock: fewer than any server's lease. A writer need not ask, for its commit
#: fails without the lock; but a cut-off reader gets from the host's cache what it doesn't get from the server.
SURE = 10.0

#: A lock belongs to a process, so two stores in one would not see each other's.
_turns: WeakValueDictionary[Path, Any] = WeakValueDictionary()
_turns_lock = threading.Lock()


class NetworkFile:
    """One SQLite file, as one process of one host uses it."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        """Take the path; nothing is opened yet. busy_timeout: seconds to wait for the transactions of others."""
        # As SQLite does, which looks for the WAL beside the file that a link leads to.
        self.path = path.resolve()
        with _turns_lock:
            self.turn: threading.Lock = _turns.setdefault(self.path, threading.Lock())
        self._busy_timeout = busy_timeout
        self._wal: int | None = None
        self._guard: int | None = None
        self._connection: UnlockedConnection | None = None
        self._is_ours = False
        self._size_before = 0
        self._locked_at = self._rest_until = 0.0

    def acquire(self, *, shared: bool) -> sqlite3.Connection:
        """Lock the file and open it; raise StorageError or sqlite3.Error, and hold nothing then.

        A shared connection only reads, and so do others beside it.
        """
        return self._acquire(shared=shared, patience=self._busy_timeout)

    def confirm(self) -> None:
        """Raise StorageUnavailable if what was read since acquire() may not be the file at one moment."""
        if time.monotonic() - self._locked_at > SURE:
            raise StorageUnavailable("Reading took so long that this host may have lost its lock meanwhile: try again.")

    def release(self) -> None:
        """Roll back what was not committed, move a long WAL into the file, close it, and unlock it."""
        try:
            if self._connection is not None and self._connection.total_changes:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if self._is_long():
                    self._checkpoint(self._connection)
            self._close()
        except (sqlite3.Error, OSError):
            # What was committed was synced to the WAL, so that no error from here on is the caller's.
            self.discard()

    def discard(self) -> None:
        """Close the file and unlock it, and believe nothing of what was known of it."""
        with suppress(sqlite3.Error, OSError):
            self._close()
        wal, self._wal = self._wal, None
        self._is_ours = False
        if wal is not None:
            with suppress(OSError):
                os.close(wal)

    def checkpoint(self) -> None:
        """Move all of the WAL into the file, so that nobody has to read it again; raise StorageError, sqlite3.Error.

        Who else uses the file at the moment is not waited for.
        """
        try:
            connection = self._acquire(shared=False, patience=0)
            if self._size_before:
                self._checkpoint(connection)
        except StorageBusy:
            pass
        except OSError as error:
            self.discard()
            raise unavailable(error) from error
        finally:
            self.release()

    def back_up(self, copy: Path) -> None:
        """Write a consistent copy, and check it; raise StorageError or sqlite3.Error.

        The copy is the file, with the WAL as it was at one moment. Others wait for that moment alone: while the file
        is read, a shared lock on it keeps checkpoints away, and the WAL grows.
        """
        try:
            with self._unchanging() as file:
                wal = self._opened_wal()
                beside(copy, "-wal").write_bytes(os.pread(wal, os.fstat(wal).st_size, 0))
                self._unlock()
                with copy.open("wb") as target, open(file, "rb", closefd=False) as source:
                    shutil.copyfileobj(source, target, 2**20)
        except OSError as error:
            self.discard()
            raise unavailable(error) from error
        with closing(connect(copy)) as connection:
            # Into one file alone. Nobody else has it, so that it needs no lock.
            connection.set("journal_mode", "DELETE")
            if not is_sound(connection):
                raise DatabaseCorrupt

    def _acquire(self, *, shared: bool, patience: float) -> UnlockedConnection:
        try:
            self._lock(shared=shared, patience=patience)
            connection = self._connection = connect(self.path)
            connection.set("synchronous", "FULL")
            connection.set("query_only", int(shared))
        except StorageBusy:
            self.release()
            raise
        except OSError as error:
            self.discard()
            raise unavailable(error) from error
        except BaseException:
            self.discard()
            raise
        return connection

    def _checkpoint(self, connection: UnlockedConnection) -> None:
        guard = self._guard = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        # If a backup reads the file, a later writer makes the checkpoint.
        if try_lock(guard, shared=False):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _is_long(self) -> bool:
        size = os.fstat(self._opened_wal()).st_size
        return size > ONE_READ or size > max(LONG_WAL, TRANSACTIONS * (size - self._size_before))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        guard, self._guard = self._guard, None
        try:
            if connection is not None:
                # This ends the lock on the WAL, of which SQLite closes a descriptor.
                connection.close()
        finally:
            if guard is not None:
                os.close(guard)
            self._unlock()

    @contextmanager
    def _unchanging(self) -> Iterator[int]:
        self._lock(shared=True, patience=self._busy_timeout)
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not try_lock(file, shared=True):
                raise StorageBusy
            before = _state(file)
            yield file
            # Had this host lost its locks, another one could have made a checkpoint meanwhile.
            self._lock(shared=True, patience=self._busy_timeout)
            if not try_lock(file, shared=True) or _state(file) != before:
                raise StorageUnavailable(
                    "The file changed while it was copied: this host has lost its lock. Try again."
                )
        finally:
            os.close(file)
            self._unlock()

    def _lock(self, *, shared: bool, patience: float) -> None:
        """Lock the WAL, exclusively if the file is not known to be ours."""
        deadline = time.monotonic() + patience
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        while True:
            wal = self._opened_wal()
            lock(wal, shared=shared and self._is_ours, deadline=deadline)
            self._locked_at = time.monotonic()
            found = os.fstat(wal)
            if self._is_in_place(found):
                break
            # A restored backup took the place of the file: a lock on what was moved away keeps nobody out.
            self.discard()
        if not self._is_ours:
            take_over(self.path, wal, deadline)
            self._is_ours = True
        # SQLite reads it a page at a time, which would be a round trip for every few of them.
        os.pread(wal, found.st_size, 0)
        self._size_before = found.st_size

    def _opened_wal(self) -> int:
        if self._wal is None:
            if sys.version_info < (3, 12):
                raise PythonTooOld
            refuse_what_is_not_ours(self.path)
            self._wal = os.open(beside(self.path, "-wal"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._wal

    def _is_in_place(self, found: os.stat_result) -> bool:
        try:
            return os.path.samestat(beside(self.path, "-wal").stat(), found)
        except FileNotFoundError:
            return False

    def _unlock(self) -> None:
        if self._wal is not None:
            unlock(self._wal)
        now = time.monotonic()
        self._rest_until = now + min(REST, (now - self._locked_at) / 2)


def _state(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
