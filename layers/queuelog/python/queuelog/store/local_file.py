from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from queuelog.errors import DatabaseCorrupt, UnsafeJournalMode
from queuelog.store import migrations
from queuelog.store.failures import BUSY, is_sound, primary_code

if TYPE_CHECKING:
    from pathlib import Path

#: A forked child must not use its parent's connections, nor close them, as the garbage collector would
#: (https://sqlite.org/howtocorrupt.html, section 2.6).
_INHERITED: list[sqlite3.Connection] = []


class LocalFile:
    """One SQLite file on a local disk: ordinary WAL, by a connection that is kept."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        """Take the path; nothing is opened yet. busy_timeout: seconds to wait for other writers."""
        self.path = path
        self.turn = threading.Lock()
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None
        self._owner = 0

    def acquire(self, *, shared: bool) -> sqlite3.Connection:  # noqa: ARG002 - readers and writers of a WAL don't meet
        """Return the connection, opened if it isn't; raise StorageError or sqlite3.Error."""
        if self._connection is None or self._owner != os.getpid():
            self.discard()
            self._connection, self._owner = self._open(), os.getpid()
        return self._connection

    def confirm(self) -> None:
        """Do nothing: what a transaction reads in a WAL is the file at one moment, however long it takes."""

    def release(self) -> None:
        """Roll back what was not committed."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.discard()

    def discard(self) -> None:
        """Close the file, and believe nothing of what was known of it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._owner != os.getpid():
            _INHERITED.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()

    def checkpoint(self) -> None:
        """Move what is in the WAL into the file, if nobody is in the way; raise StorageError, sqlite3.Error."""
        connection = self.acquire(shared=False)
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout * 1000:.0f}").fetchall()

    def back_up(self, copy: Path) -> None:
        """Write a consistent copy and check it, while others go on; raise StorageError or sqlite3.Error."""
        with closing(sqlite3.connect(copy, isolation_level=None)) as target:
            # Unlike a transaction it asks again for as long as others keep the file busy.
            self.acquire(shared=True).backup(target)
            if not is_sound(target):
                raise DatabaseCorrupt

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            # Before WAL, which is kept in the file: what belongs to another application must stay as it is.
            migrations.pending(connection)
            self._use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            # An I/O error in mapped memory is a SIGBUS, not an error that can be answered.
            connection.execute("PRAGMA mmap_size = 0")
            connection.execute("PRAGMA temp_store = MEMORY")
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
                if primary_code(error) not in BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                break
        if mode != "wal":
            raise UnsafeJournalMode(f"The file system doesn't support SQLite's WAL (the journal mode stayed {mode}).")
