"""Connections in which SQLite takes no lock: whoever opens one has locked the file, and closes it first."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class UnlockedConnection(sqlite3.Connection):
    """A connection that closes its files when it is closed.

    SQLite keeps a closed connection's files open for as long as one of its statements lives, in a cursor that an
    exception's frames refer to, say. Closed later, they would take away a lock that this process has got meanwhile.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: list[sqlite3.Cursor] = []

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement in a cursor of its own, which ends with the connection."""
        cursor = self.cursor()
        self._cursors.append(cursor)
        return cursor.execute(statement, values)

    def set(self, pragma: str, value: str | int) -> None:
        """Set a pragma; those that answer with a row go on, and keep others from ending, until it is fetched."""
        self.execute(f"PRAGMA {pragma} = {value}").fetchall()

    def close(self) -> None:
        """End every cursor, then close the file."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
        super().close()


def connect(path: Path) -> UnlockedConnection:
    """Open a file in WAL mode with the WAL's index in this process's memory, or one with a rollback journal.

    Nothing is read yet. What is opened in this way never makes a checkpoint by itself, and leaves the WAL where it is.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?vfs=unix-none",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=UnlockedConnection,
    )
    try:
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
        # Before anything that looks at the file: it decides where the WAL's index is.
        connection.set("locking_mode", "EXCLUSIVE")
        connection.set("wal_autocheckpoint", 0)
        connection.set("mmap_size", 0)
        connection.set("temp_store", "MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection
