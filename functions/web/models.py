"""What requests may hold and answers do hold; OpenAPI is made from these."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from queuelog.errors import Fault, InvalidJob, InvalidRequest, NotFound
from queuelog.job import (
    DEFAULT_MAX_RETRIES,
    MAX_ID,
    MAX_IDEMPOTENCY_KEY_LENGTH,
    MAX_RETRIES,
    TYPE_PATTERN,
    JobPriority,
    NewJob,
    encode_payload,
    is_idempotency_key,
)
from web.settings import settings

LABELS = [priority.label for priority in JobPriority]
MAX_LIMIT = 100


def _known_type(job_type: str) -> str:
    known = settings().job_types
    if job_type not in known:
        raise PydanticCustomError("unknown_type", "must be one of {known}", {"known": ", ".join(sorted(known))})
    return job_type


def _priority(value: object) -> JobPriority:
    try:
        return JobPriority.from_label(value)  # type: ignore[arg-type]
    except (AttributeError, ValueError):
        raise PydanticCustomError("unknown_priority", "must be one of {known}", {"known": ", ".join(LABELS)}) from None


def _payload(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        encode_payload(payload)
    except InvalidJob as invalid:
        raise PydanticCustomError(invalid.faults[0].code, "{message}", {"message": invalid.faults[0].message}) from None
    return payload


def _idempotency_key(key: str) -> str:
    if not is_idempotency_key(key):
        raise PydanticCustomError("invalid_key", f"must be 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable characters")
    return key


def _limit(text: object) -> int:
    # Python and pydantic would read 1_0, +5 and 5.0 as well.
    if not re.fullmatch(r"[1-9][0-9]{0,2}", str(text)) or int(str(text)) > MAX_LIMIT:
        raise PydanticCustomError("out_of_range", f"must be an integer between 1 and {MAX_LIMIT}")
    return int(str(text))


def _job_id(text: object) -> int:
    # What can't be an id names no job, so the answer is the one for a job that isn't there.
    if not re.fullmatch(r"[1-9][0-9]{0,15}", str(text)) or int(str(text)) > MAX_ID:
        raise NotFound
    return int(str(text))


PriorityLabel = Annotated[
    JobPriority,
    BeforeValidator(_priority),
    WithJsonSchema({"type": "string", "enum": LABELS, "description": "In any letter case"}),
]
JobType = Annotated[str, Field(pattern=f"^{TYPE_PATTERN}$")]
IdempotencyKey = Annotated[
    str,
    AfterValidator(_idempotency_key),
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_LENGTH}),
]
JobId = Annotated[
    int,
    BeforeValidator(_job_id),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_ID}),
    Path(description="The job's id"),
]
Limit = Annotated[
    int,
    BeforeValidator(_limit),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50}),
    Query(description="Jobs on a page, at the most"),
]


class _Request(BaseModel):
    # Unknown fields are faults: a misspelt max_retry must not be swallowed.
    model_config = ConfigDict(extra="forbid", strict=True)


class EnqueueRequest(_Request):
    """A job to enqueue."""

    type: Annotated[JobType, AfterValidator(_known_type)] = Field(description="One of the stack's JobTypes")
    payload: Annotated[dict[str, Any], AfterValidator(_payload)] = Field(
        default={}, description="What the worker gets; at most 65,536 bytes as compact JSON"
    )
    priority: PriorityLabel = Field(default=JobPriority.MEDIUM, json_schema_extra={"default": JobPriority.MEDIUM.label})
    max_retries: int = Field(default=DEFAULT_MAX_RETRIES, ge=0, le=MAX_RETRIES)
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="The same key enqueues one job however often it is sent"
    )

    def new_job(self, header: str | None) -> NewJob:
        """Return the job asked for, with None for what was not sent; raise InvalidRequest for two different keys."""
        if header and self.idempotency_key and header != self.idempotency_key:
            message = "differs from the header Idempotency-Key: send one of them"
            raise InvalidRequest(faults=(Fault("idempotency_key", "two_keys", message),))
        sent = {name: getattr(self, name) for name in self.model_fields_set - {"idempotency_key"}}
        return NewJob(**sent, idempotency_key=self.idempotency_key or header)


class ClaimRequest(_Request):
    """What a worker is ready for."""

    types: Annotated[list[JobType], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Only jobs of these types; all that the caller may use when left out"
    )
    worker_id: str | None = Field(
        default=None, max_length=255, description="Only the caller's own, which is known without it"
    )


class CompleteRequest(_Request):
    """Nothing more to say."""


class FailRequest(_Request):
    """What went wrong."""

    error: str | None = Field(
        default=None, description="Cleaned of secrets, paths and stack traces, and cut to 1,000 characters"
    )


def _without_default(schema: dict[str, Any]) -> None:
    # A client made from the schema would take a default for what an absent field stands for.
    schema.pop("default", None)


def _absent_unless(description: str) -> Any:
    return Field(default=None, description=description, json_schema_extra=_without_default)


class JobView(BaseModel):
    """A job. Fields that the caller may not see are absent."""

    id: int = Field(ge=1, le=MAX_ID)
    type: str
    payload: dict[str, Any] = _absent_unless("For its creator, the worker that holds it, and admins")
    priority: Literal["low", "medium", "high", "critical"]
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    retry_count: int = Field(ge=0, le=MAX_RETRIES)
    max_retries: int = Field(ge=0, le=MAX_RETRIES)
    idempotency_key: str | None = _absent_unless("For its creator and admins")
    claimed_at: str | None = Field(json_schema_extra={"format": "date-time"})
    worker_id: str | None
    error: str | None = _absent_unless("For admins")
    created_at: str = Field(json_schema_extra={"format": "date-time"})
    updated_at: str = Field(json_schema_extra={"format": "date-time"})
    reason: Literal["failed", "lease_expired"] | None = _absent_unless("For its creator and admins")
    created_by: str = _absent_unless("For its creator and admins")


class JobPage(BaseModel):
    """Some jobs of a list."""

    jobs: list[JobView]
    next_cursor: str | None = Field(description="Where the next page starts; null on the last page")


class Health(BaseModel):
    """The queue's file system can be reached."""

    status: Literal["ok"]


class FaultView(BaseModel):
    """One thing that is wrong with a request."""

    field: str
    code: str
    message: str


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str = Field(pattern="^urn:queuelog:problem:[a-z-]+$")
    title: str
    status: int
    detail: str
    instance: str = _absent_unless("The path asked for; absent when API Gateway itself answered")
    errors: list[FaultView] = _absent_unless("All faults of the request, at most 100")
