"""The one shape of an error (RFC 9457), and the one table that turns an exception into it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from queuelog import errors
from queuelog.errors import Fault, InvalidRequest, QueuelogError
from queuelog.job import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

CONTENT_TYPE = "application/problem+json"
MAX_FAULTS = 100

#: In JSON's words where pydantic would use Python's.
MESSAGES = {
    "dict_type": "must be an object",
    "extra_forbidden": "is not a field of this request",
    "int_type": "must be an integer",
    "list_type": "must be an array",
    "missing": "is required",
    "string_type": "must be a string",
    "too_long": "has too many items",
    "too_short": "has too few items",
}


class Unauthorized(QueuelogError):
    """The request has no valid credentials: send an API key in X-Api-Key, or sign a request to /iam."""


class InvalidJson(QueuelogError):
    """The body must be one JSON object in UTF-8."""


class PayloadTooLarge(QueuelogError):
    """The body is too large."""


class Unreachable(errors.StorageUnavailable):
    """The queue's file system can't be reached."""


class UnsupportedMediaType(QueuelogError):
    """The body must be application/json in UTF-8."""


class Kind(NamedTuple):
    """A problem's status, the end of its type's URN, its title, and the seconds after which to try again."""

    status: HTTPStatus
    slug: str
    title: str
    retry_after: int | None = None


INTERNAL_ERROR = Kind(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", "Something went wrong on our side")
#: Made by API Gateway alone, before a function is asked; named here because they are among the API's problems.
GATEWAY_KINDS = (
    Kind(HTTPStatus.BAD_REQUEST, "bad-request", "The request is not valid"),
    Kind(HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", "There are too many requests", retry_after=1),
)

#: Looked up along an exception's base classes, so a new error is what its parent is until it gets a row.
KINDS: dict[type[Exception], Kind] = {
    Exception: INTERNAL_ERROR,
    InvalidJson: Kind(HTTPStatus.BAD_REQUEST, "invalid-json", "The body is not valid JSON"),
    Unauthorized: Kind(HTTPStatus.UNAUTHORIZED, "unauthorized", "Valid credentials are needed"),
    errors.Forbidden: Kind(HTTPStatus.FORBIDDEN, "forbidden", "This is not allowed"),
    errors.NotFound: Kind(HTTPStatus.NOT_FOUND, "not-found", "There is no such thing"),
    NotFoundError: Kind(HTTPStatus.NOT_FOUND, "not-found", "There is no such thing"),
    errors.LeaseLost: Kind(HTTPStatus.CONFLICT, "lease-lost", "The lease has ended"),
    errors.Conflict: Kind(HTTPStatus.CONFLICT, "conflict", "The job's state does not allow this"),
    PayloadTooLarge: Kind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "payload-too-large", "The body is too large"),
    UnsupportedMediaType: Kind(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body's media type is not supported"
    ),
    InvalidRequest: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "validation-failed", "The request is not valid"),
    RequestValidationError: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "validation-failed", "The request is not valid"),
    errors.IdempotencyKeyReused: Kind(
        HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency-key-reused", "The idempotency key was used before"
    ),
    errors.StorageBusy: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "storage-busy", "The queue is busy", retry_after=2),
    errors.StorageUnavailable: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE, "storage-unavailable", "The queue's storage is not available", retry_after=10
    ),
}


def kind_of(error: Exception) -> Kind:
    """Return the row of KINDS for an exception."""
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def problem(error: Exception, instance: str) -> Response[str]:
    """Return the answer to a request that ended in `error`; an unknown error is a 500 without its text."""
    kind = kind_of(error)
    headers = {} if kind.retry_after is None else {"Retry-After": str(kind.retry_after)}
    return Response(kind.status, CONTENT_TYPE, canonical_json(problem_body(error, instance), sort_keys=False), headers)


def problem_body(error: Exception, instance: str) -> dict[str, Any]:
    """Return the problem that `error` is, as an object."""
    kind = kind_of(error)
    body: dict[str, Any] = {
        "type": f"urn:queuelog:problem:{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": _detail(error, kind),
        "instance": instance,
    }
    faults = _faults(error)
    if faults:
        body["errors"] = [fault._asdict() for fault in faults[:MAX_FAULTS]]
    return body


def _detail(error: Exception, kind: Kind) -> str:
    # What the store says of its file is for operators. A caller can only repeat; later classes of it may know more.
    if kind is INTERNAL_ERROR or type(error) is errors.StorageUnavailable:
        return "The outcome is unknown; it is safe to repeat the request, an enqueue with an idempotency key."
    if isinstance(error, NotFoundError):
        return "There is no such route."
    if isinstance(error, RequestValidationError):
        return str(InvalidRequest())
    return str(error)


def _faults(error: Exception) -> list[Fault]:
    if isinstance(error, (InvalidRequest, errors.Forbidden)):
        return list(error.faults)
    if isinstance(error, RequestValidationError):
        return [_fault(each) for each in error.errors()]
    return []


def _fault(found: Mapping[str, Any]) -> Fault:
    return Fault(field_name(found["loc"]), found["type"], MESSAGES.get(found["type"], found["msg"]))


def field_name(location: Iterable[str | int]) -> str:
    """Return pydantic's location as people write it: jobs[3].priority."""
    where, *parts = location
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return name.removeprefix(".") or str(where)
