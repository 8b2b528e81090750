"""What a failure of SQLite or of the file system is called, and what an operator should do about it."""

from __future__ import annotations

import errno
import sqlite3

from queuelog.errors import NotADatabase, StorageBusy, StorageError, StorageUnavailable

_CAN_NOT_BE_OPENED = "The database can't be opened: its directory must exist and be writable for this user."
_FULL = "The file system is full: nothing was changed. Make room, then repeat the request."
_READ_ONLY = "The database can't be written: the file or its file system is read-only for this user."

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_UNAVAILABLE = {
    sqlite3.SQLITE_CANTOPEN: _CAN_NOT_BE_OPENED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: None,
    sqlite3.SQLITE_NOLFS: None,
    sqlite3.SQLITE_PERM: "The database can't be opened: this user may not read and write it.",
    sqlite3.SQLITE_PROTOCOL: None,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
}
_SENTENCES = {
    errno.EACCES: _CAN_NOT_BE_OPENED,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EISDIR: _CAN_NOT_BE_OPENED,
    errno.ENOENT: _CAN_NOT_BE_OPENED,
    errno.ENOSPC: _FULL,
    errno.ENOTDIR: _CAN_NOT_BE_OPENED,
    errno.EPERM: _CAN_NOT_BE_OPENED,
    errno.EROFS: _READ_ONLY,
}


def unavailable(error: OSError) -> StorageUnavailable:
    """Return the queue's own error for one of the file system."""
    return StorageUnavailable(_SENTENCES.get(error.errno or 0))


def named(error: sqlite3.Error) -> StorageError | None:
    """Return the queue's own error for one of SQLite; None for a mistake of ours, such as a wrong statement.

    For "malformed" (SQLITE_CORRUPT) that is StorageUnavailable: a host that has lost its lock sees it in a sound file.
    """
    code = primary_code(error)
    if code in BUSY:
        return StorageBusy()
    if code == sqlite3.SQLITE_NOTADB:
        return NotADatabase()
    if code == sqlite3.SQLITE_CORRUPT:
        return StorageUnavailable()
    return StorageUnavailable(_UNAVAILABLE[code]) if code in _UNAVAILABLE else None


def primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's result code without its extension; None for an error that Python's module raised itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_sound(connection: sqlite3.Connection) -> bool:
    """Say whether SQLite finds every page of a database as it should be."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError:
        return False
    return str(verdict) == "ok"
