"""Every error of the queue that this client raises, named as in the queue's own core.

QueuelogError
├── RequestRefused                 any 4xx: repeating it as it is will not help
│   ├── Conflict                   the job is not in the state that the verb needs
│   │   └── LeaseLost
│   ├── Forbidden                  you may never do this
│   ├── InvalidRequest             the request itself is wrong
│   │   ├── BadRequest
│   │   ├── IdempotencyKeyReused
│   │   ├── InvalidCursor
│   │   ├── InvalidJob
│   │   └── InvalidJson
│   ├── NotFound                   no such job, as far as you may know
│   ├── PayloadTooLarge
│   ├── Unauthorized
│   └── UnsupportedMediaType
├── TryAgain                       later it may work; it has been tried as often as the client was told
│   ├── InternalError              any 5xx
│   ├── NoAnswer                   no connection, or it was lost, or it took too long
│   ├── StorageError
│   │   ├── StorageBusy
│   │   └── StorageUnavailable
│   └── TooManyRequests
└── UnexpectedAnswer               what answers there is not a queue, or one much newer than this client

A docstring is the message, unless the queue said more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

URN = "urn:queuelog:problem:"


class Fault(NamedTuple):
    """One thing that is wrong with a request: where, a code for programs, a sentence for people."""

    field: str
    code: str
    message: str


def listed(faults: Iterable[Fault]) -> str:
    """Return what is wrong where, in one line."""
    return "; ".join(f"{fault.field} {fault.message}" for fault in faults)


class QueuelogError(Exception):
    """The queue could not do this."""

    #: The problem's name, the end of its type's URN; None for what only its status tells.
    slug: ClassVar[str | None] = None
    #: The problem's title and its HTTP status, where an answer gave them.
    title: str | None = None
    status: int | None = None
    #: Seconds after which to try again, where the queue said so.
    retry_after: float | None = None
    #: Whether an earlier try of the same call may have been carried out.
    is_repeat: bool = False

    def __init__(self, message: str | None = None, faults: tuple[Fault, ...] = ()) -> None:
        self.detail = message or " ".join((type(self).__doc__ or "").split())
        self.faults = faults
        super().__init__(self.detail)

    def __str__(self) -> str:
        """Return the sentence, and what is wrong where."""
        found = listed(self.faults)
        return f"{self.detail} ({found})" if found else self.detail


class RequestRefused(QueuelogError):
    """The queue refused this request."""


class Conflict(RequestRefused):
    """The job is not running, or you do not hold it."""

    slug = "conflict"


class LeaseLost(Conflict):
    """This lease has ended, or never was: stop the work, for another worker may have the job."""

    slug = "lease-lost"


class Forbidden(RequestRefused):
    """You may not do this."""

    slug = "forbidden"


class InvalidRequest(RequestRefused):
    """The request is not valid: faults says what to change."""

    slug = "validation-failed"


class BadRequest(InvalidRequest):
    """API Gateway could not make sense of the request."""

    slug = "bad-request"


class IdempotencyKeyReused(InvalidRequest):
    """This idempotency key was used for a different request: use a new key, or send the same request."""

    slug = "idempotency-key-reused"


class InvalidCursor(InvalidRequest):
    """The cursor is not one that this list returned: start again without it."""


class InvalidJob(InvalidRequest):
    """The job is not valid: faults says what to change."""


class InvalidJson(InvalidRequest):
    """The body is not valid JSON."""

    slug = "invalid-json"


class NotFound(RequestRefused):
    """There is no such job, or you may not see it."""

    slug = "not-found"


class PayloadTooLarge(RequestRefused):
    """The body is too large."""

    slug = "payload-too-large"


class Unauthorized(RequestRefused):
    """The key or the signature opens nothing."""

    slug = "unauthorized"


class UnsupportedMediaType(RequestRefused):
    """The body must be application/json in UTF-8."""

    slug = "unsupported-media-type"


class TryAgain(QueuelogError):
    """The queue could not do this now."""

    #: Whether it is sure that nothing was changed; otherwise the outcome is unknown.
    nothing_done: bool = False


class InternalError(TryAgain):
    """Something went wrong in the queue; the outcome is unknown."""

    slug = "internal-error"


class NoAnswer(TryAgain):
    """No answer came from the queue."""

    def __init__(self, message: str | None = None, *, nothing_done: bool = False) -> None:
        super().__init__(message)
        self.nothing_done = nothing_done


class StorageError(TryAgain):
    """The queue's file could not be used."""


class StorageBusy(StorageError):
    """Other callers kept the queue busy for too long: try again in a few seconds. Nothing was changed."""

    slug = "storage-busy"
    nothing_done = True


class StorageUnavailable(StorageError):
    """The queue's file system failed, and the outcome is unknown."""

    slug = "storage-unavailable"


class TooManyRequests(TryAgain):
    """There are too many requests."""

    slug = "too-many-requests"
    nothing_done = True


class UnexpectedAnswer(QueuelogError):
    """What answered is not a queue."""


def _tree(root: type[QueuelogError]) -> Iterator[type[QueuelogError]]:
    yield root
    for each in root.__subclasses__():
        yield from _tree(each)


BY_SLUG: dict[str, type[QueuelogError]] = {
    each.slug: each for each in _tree(QueuelogError) if each.slug is not None and "slug" in vars(each)
}
#: What a problem is whose name is unknown here, or an answer without a problem, such as a proxy's.
_BY_STATUS: dict[int, type[QueuelogError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: PayloadTooLarge,
    415: UnsupportedMediaType,
    422: InvalidRequest,
    429: TooManyRequests,
}


def error_of(status: int, problem: Any, retry_after: float | None = None) -> QueuelogError:
    """Return the error that an answer is: by its problem's name, else by its status."""
    said: dict[str, Any] = problem if isinstance(problem, dict) else {}
    slug = str(said.get("type", "")).removeprefix(URN)
    detail = said.get("detail") if isinstance(said.get("detail"), str) else None
    faults = tuple(_faults(said.get("errors")))
    # Over HTTP it is one of the faults that a request can have.
    is_cursor = [fault.code for fault in faults] == ["invalid_cursor"]
    error = (InvalidCursor if is_cursor else BY_SLUG.get(slug) or _by_status(status))(
        detail or f"The answer was HTTP {status}."
    )
    error.faults = faults
    error.title = said.get("title") if isinstance(said.get("title"), str) else None
    error.status = status
    error.retry_after = retry_after
    return error


def _by_status(status: int) -> type[QueuelogError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return InternalError
    return RequestRefused if status >= 400 else UnexpectedAnswer


def _faults(errors: Any) -> Iterator[Fault]:
    for each in errors if isinstance(errors, list) else ():
        if isinstance(each, dict):
            yield Fault(*(str(each.get(name, "")) for name in Fault._fields))
