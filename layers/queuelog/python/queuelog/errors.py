"""Every error the queue raises.

QueuelogError
├── InvalidRequest                 the request itself is wrong: repeating it will not help
│   ├── InvalidCursor
│   ├── InvalidJob
│   └── IdempotencyKeyReused
├── Forbidden                      this principal may never do this
├── NotFound                       no such job, as far as this principal can tell
├── Conflict                       the job is not in the state that the verb needs
│   └── LeaseLost
├── InvalidRegistry                the list of API keys can't be read
└── StorageError                   the database file or its file system
    ├── StorageBusy                try again
    ├── StorageUnavailable         try again; an operator should look
    │   └── NotYetCounted
    └── StorageUnusable            an operator has to act
        ├── DatabaseCorrupt
        ├── NotADatabase
        ├── PythonTooOld
        ├── SchemaTooNew
        ├── SQLiteTooOld
        └── UnsafeJournalMode

A docstring is the message, unless the place that raises knows more.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One thing that is wrong with a request: where, a code for programs, a sentence for people."""

    field: str
    code: str
    message: str


class QueuelogError(Exception):
    """The queue could not do this."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))


class InvalidRequest(QueuelogError):
    """The request is not valid: errors says what to change."""

    def __init__(self, message: str | None = None, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


class InvalidCursor(InvalidRequest):
    """The cursor is not one that this list returned: start again without it."""

    def __init__(self) -> None:
        super().__init__(faults=(Fault("cursor", "invalid_cursor", (type(self).__doc__ or "").strip()),))


class InvalidJob(InvalidRequest):
    """The job is not valid: faults says what to change."""


class IdempotencyKeyReused(InvalidRequest):
    """This idempotency key was used for a different request: use a new key, or send the same request."""


class Forbidden(QueuelogError):
    """You may not do this."""

    def __init__(self, message: str | None = None, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


class NotFound(QueuelogError):
    """There is no such job, or you may not see it."""


class Conflict(QueuelogError):
    """The job is not running, or you do not hold it."""


class LeaseLost(Conflict):
    """This lease has ended, or never was: stop the work, for another worker may have the job."""


class InvalidRegistry(QueuelogError):
    """The registry of API keys is malformed."""


class StorageError(QueuelogError):
    """The database could not be used."""


class StorageBusy(StorageError):
    """Other callers kept the queue busy for too long: try again in a few seconds. Nothing was changed."""


class StorageUnavailable(StorageError):
    """The file system failed, and the outcome is unknown; it is safe to repeat, an enqueue with an idempotency key."""


class StorageUnusable(StorageError):
    """The database can't be used as it is."""


class DatabaseCorrupt(StorageUnusable):
    """The database file is damaged: stop the functions and restore a backup."""


class NotADatabase(StorageUnusable):
    """The file is not an SQLite database: move it away or point QUEUELOG_DATABASE elsewhere."""


class NotYetCounted(StorageUnavailable):
    """The jobs are being counted for the first time, which the next sweep ends: try again in a minute."""


class PythonTooOld(StorageUnusable):
    """On a network file system Queuelog needs Python 3.12 or newer."""


class SchemaTooNew(StorageUnusable):
    """The database belongs to a newer major release of Queuelog: deploy that release or a later one."""


class SQLiteTooOld(StorageUnusable):
    """Queuelog needs SQLite 3.40 or newer."""


class UnsafeJournalMode(StorageUnusable):
    """The database's journal mode is not safe on this file system."""
