"""SQLite as anyone would open it on NFS: what the store's own way is measured against, in the same run."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queuelog.errors import StorageBusy
from queuelog.store import migrations
from queuelog.store.database import BUSY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["BUSY_TIMEOUT", "StockDatabase"]


class StockDatabase:
    """A queue's file through one stock connection in PERSIST; a Store can be given it in its own's place."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._transaction("BEGIN IMMEDIATE")

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._transaction("BEGIN")

    def has_counts(self, _: sqlite3.Connection) -> bool:
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._connection = self._connection or self._opened()
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise StorageBusy from error
            raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=self._busy_timeout, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        migrations.apply(connection, migrations.pending(connection))
        connection.execute("COMMIT")
        return connection
