"""What requests may hold and answers do hold; OpenAPI is made from these."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from queuelog.clock import parse_timestamp
from queuelog.errors import Fault, InvalidJob, InvalidRequest, NotFound
from queuelog.job import (
    DEFAULT_MAX_RETRIES,
    MAX_BACKOFF_SECONDS,
    MAX_BATCH,
    MAX_DELAY_SECONDS,
    MAX_ERROR_LENGTH,
    MAX_ID,
    MAX_IDEMPOTENCY_KEY_LENGTH,
    MAX_LEASE_SECONDS,
    MAX_LEASE_TOKEN_LENGTH,
    MAX_PAYLOAD_BYTES,
    MAX_PROGRESS_BYTES,
    MAX_RESULT_BYTES,
    MAX_RETRIES,
    MAX_RETRY_BATCH,
    TYPE_PATTERN,
    Beat,
    Ending,
    JobPriority,
    JobStatus,
    NewJob,
    encode_json,
    is_idempotency_key,
)
from queuelog.page import MAX_PAGE
from web.problems import MAX_FAULTS
from web.settings import settings

LABELS = [priority.label for priority in JobPriority]
#: A date-time of RFC 3339, section 5.6.
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


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


def _idempotency_key(key: str) -> str:
    if not is_idempotency_key(key):
        raise PydanticCustomError("invalid_key", f"must be 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable characters")
    return key


def _limit(text: object) -> int:
    # Python and pydantic would read 1_0, +5 and 5.0 as well.
    if not re.fullmatch(r"[1-9][0-9]{0,2}", str(text)) or int(str(text)) > MAX_PAGE:
        raise PydanticCustomError("out_of_range", f"must be an integer between 1 and {MAX_PAGE}")
    return int(str(text))


def _job_id(text: object) -> int:
    # What can't be an id names no job, so the answer is the one for a job that isn't there.
    if not re.fullmatch(r"[1-9][0-9]{0,15}", str(text)) or int(str(text)) > MAX_ID:
        raise NotFound
    return int(str(text))


def _moment(value: object) -> datetime:
    # Python reads much more than this, and nothing that follows a NUL.
    if isinstance(value, str) and _DATE_TIME.fullmatch(value):
        with suppress(OverflowError, ValueError):
            return parse_timestamp(value)
    message = "must be a time with its zone, such as 2026-01-31T12:00:00.000Z"
    raise PydanticCustomError("invalid_time", message)


def _ended_status(value: object) -> JobStatus:
    for status in (JobStatus.FAILED, JobStatus.CANCELLED):
        if value == status:
            return status
    raise PydanticCustomError("unknown_status", "must be failed or cancelled")


def _at_most(max_bytes: int) -> AfterValidator:
    def fits(value: Any) -> Any:
        try:
            encode_json("value", value, max_bytes)
        except InvalidJob as invalid:
            fault = invalid.faults[0]
            raise PydanticCustomError(fault.code, "{message}", {"message": fault.message}) from None
        return value

    return AfterValidator(fits)


def _not_with(other: str) -> AfterValidator:
    def alone(value: Any, found: ValidationInfo) -> Any:
        # Said is said, a delay of 0 seconds too; only what is not permanent goes with everything.
        if value is not None and value is not False and found.data.get(other) is not None:
            raise PydanticCustomError("not_both", "can't be given together with {other}", {"other": other})
        return value

    return AfterValidator(alone)


def _never_both(**said: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON Schema says of fields that can't all be like this together."""
    return {"not": {"required": [*said], "properties": said}}


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
LeaseSeconds = Annotated[int, Field(ge=1, le=MAX_LEASE_SECONDS)]
#: Any text: one that belongs to no claim is a lost lease and not a fault.
LeaseToken = Annotated[str, Field(min_length=1, max_length=MAX_LEASE_TOKEN_LENGTH)]
DelaySeconds = Annotated[int, Field(ge=0, le=MAX_DELAY_SECONDS)]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Progress = Annotated[dict[str, Any], _at_most(MAX_PROGRESS_BYTES)]
Result = Annotated[Any, _at_most(MAX_RESULT_BYTES)]
ClaimRequestId = Annotated[
    # None in here and not beside it: Powertools would take an optional of the whole for a query parameter.
    IdempotencyKey | None,
    Header(alias="Claim-Request-Id", description="While a lease that it gave is held, the same id gets the same jobs"),
]
Limit = Annotated[
    int,
    BeforeValidator(_limit),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50}),
    Query(description="Jobs on a page, at the most"),
]


class _Request(BaseModel):
    # Unknown fields are faults: a misspelt max_retry must not be swallowed.
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_most_of_what_is_unknown(cls, sent: Any) -> Any:
        # A hundred faults are reported; to make them of half a million unknown fields takes more memory than there is.
        if not isinstance(sent, dict) or len(sent) <= MAX_FAULTS:
            return sent
        unknown = (name for name in sent if name not in cls.model_fields)
        kept = {*cls.model_fields, *islice(unknown, MAX_FAULTS)}
        return {name: value for name, value in sent.items() if name in kept}

    def sent(self) -> dict[str, Any]:
        """Return the fields that the caller sent, without those that it left out."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class EnqueueRequest(_Request):
    """A job to enqueue."""

    model_config = ConfigDict(
        json_schema_extra=_never_both(run_at={"type": "string"}, delay_seconds={"type": "integer"})
    )

    type: Annotated[JobType, AfterValidator(_known_type)] = Field(description="One of the stack's JobTypes")
    payload: Annotated[dict[str, Any], _at_most(MAX_PAYLOAD_BYTES)] = Field(
        default={}, description="What the worker gets; at most 65,536 bytes as compact JSON"
    )
    priority: PriorityLabel = Field(default=JobPriority.MEDIUM, json_schema_extra={"default": JobPriority.MEDIUM.label})
    max_retries: int = Field(default=DEFAULT_MAX_RETRIES, ge=0, le=MAX_RETRIES)
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="The same key enqueues one job however often it is sent"
    )
    run_at: Moment | None = Field(default=None, description="Not to be claimed before")
    delay_seconds: Annotated[DelaySeconds | None, _not_with("run_at")] = Field(
        default=None, description="In place of run_at: from now"
    )
    backoff_seconds: int | None = Field(
        default=None, ge=0, le=MAX_BACKOFF_SECONDS, description="What the waits between retries grow from"
    )

    def new_job(self, header: str | None = None) -> NewJob:
        """Return the job asked for, with None for what was not sent; raise InvalidRequest for two different keys."""
        if header and self.idempotency_key and header != self.idempotency_key:
            message = "differs from the header Idempotency-Key: send one of them"
            raise InvalidRequest(faults=(Fault("idempotency_key", "two_keys", message),))
        return NewJob(**{**self.sent(), "idempotency_key": self.idempotency_key or header})


class EnqueueJobsRequest(_Request):
    """Jobs to enqueue."""

    jobs: list[EnqueueRequest] = Field(min_length=1, max_length=MAX_BATCH)


class ClaimRequest(_Request):
    """What a worker is ready for."""

    lease_seconds: LeaseSeconds | None = Field(default=None, description="How long to hold it; default the stack's")
    types: Annotated[list[JobType], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Only jobs of these types; all that the caller may use when left out"
    )
    worker_id: str | None = Field(
        default=None, max_length=255, description="Only the caller's own, which is known without it"
    )


class ClaimJobsRequest(ClaimRequest):
    """What a worker is ready for, and how much of it."""

    limit: int = Field(ge=1, le=MAX_BATCH)


class EmptyRequest(_Request):
    """Nothing more to say."""


class ReleaseRequest(_Request):
    """Which claim this is about."""

    lease_token: LeaseToken | None = Field(default=None, description="The claim's; without it the caller decides")


class CompleteRequest(ReleaseRequest):
    """What came of it."""

    result: Result = Field(default=None, description="For the creator; at most 65,536 bytes as compact JSON")


class FailRequest(ReleaseRequest):
    """What went wrong, and what to do about it."""

    model_config = ConfigDict(
        json_schema_extra=_never_both(retry_in_seconds={"type": "integer"}, permanent={"const": True})
    )

    error: str | None = Field(
        default=None, description="Cleaned of secrets, paths and stack traces, and cut to 1,000 characters"
    )
    retry_in_seconds: DelaySeconds | None = Field(default=None, description="In place of the backoff")
    permanent: Annotated[bool, _not_with("retry_in_seconds")] = Field(default=False, description="No retry will help")


class HeartbeatRequest(_Request):
    """A sign of life."""

    lease_token: LeaseToken
    lease_seconds: LeaseSeconds | None = Field(default=None, description="From now on; as the claim when left out")
    progress: Progress | None = Field(default=None, description="At most 4,096 bytes as compact JSON")


class HeartbeatItem(HeartbeatRequest):
    """A sign of life for one of several jobs."""

    id: int = Field(ge=1, le=MAX_ID)

    def beat(self) -> Beat:
        """Return what the queue takes."""
        return Beat(**self.sent())


class HeartbeatJobsRequest(_Request):
    """Signs of life."""

    jobs: list[HeartbeatItem] = Field(min_length=1, max_length=MAX_BATCH)


def _outcome_is(outcome: str) -> dict[str, Any]:
    return {"properties": {"outcome": {"const": outcome}}}


class FinishItem(FailRequest):
    """How one of several jobs ended."""

    model_config = ConfigDict(
        json_schema_extra={
            **_never_both(retry_in_seconds={"type": "integer"}, permanent={"const": True}),
            "allOf": [
                {"if": _outcome_is("completed"), "else": {"properties": {"result": {"type": "null"}}}},
                {
                    "if": _outcome_is("failed"),
                    "else": {
                        "properties": {
                            "error": {"type": "null"},
                            "retry_in_seconds": {"type": "null"},
                            "permanent": {"const": False},
                        }
                    },
                },
            ],
        }
    )

    id: int = Field(ge=1, le=MAX_ID)
    lease_token: LeaseToken
    outcome: Literal["completed", "failed", "released"]
    result: Result = Field(default=None, description="With completed alone; at most 65,536 bytes as compact JSON")

    @field_validator("outcome")
    @classmethod
    def _fits(cls, outcome: str, found: ValidationInfo) -> str:
        others = ("error", "retry_in_seconds", "permanent")
        given = [name for name in others if not (found.data.get(name) is None or found.data[name] is False)]
        if given and outcome != "failed":
            told = {"outcome": outcome, "given": ", ".join(given)}
            raise PydanticCustomError("not_for_outcome", "is not {outcome} with {given}", told)
        return outcome

    @field_validator("result")
    @classmethod
    def _is_of_completed(cls, result: Any, found: ValidationInfo) -> Any:
        if result is not None and found.data.get("outcome") in {"failed", "released"}:
            raise PydanticCustomError("not_for_outcome", "belongs to completed")
        return result

    def ending(self) -> Ending:
        """Return what the queue takes."""
        sent = self.sent()
        verb = {"completed": "complete", "failed": "fail", "released": "release"}[sent.pop("outcome")]
        return Ending(verb=verb, **sent)


class FinishJobsRequest(_Request):
    """How several jobs ended."""

    jobs: list[FinishItem] = Field(min_length=1, max_length=MAX_BATCH)


class RetryJobsRequest(_Request):
    """Which jobs to retry."""

    status: Annotated[JobStatus, BeforeValidator(_ended_status), WithJsonSchema({"enum": ["failed", "cancelled"]})]
    type: JobType | None = None
    error_contains: Annotated[str, Field(min_length=1, max_length=MAX_ERROR_LENGTH)] | None = None
    failed_after: Moment | None = Field(default=None, description="When it failed or was cancelled")
    failed_before: Moment | None = None
    limit: int = Field(default=100, ge=1, le=MAX_RETRY_BATCH)
    dry_run: bool = Field(default=False, description="Only say which they would be")


class AttemptView(BaseModel):
    """One ended attempt of a job."""

    attempt: int = Field(ge=1)
    worker_id: str
    claimed_at: str = Field(json_schema_extra={"format": "date-time"})
    ended_at: str = Field(json_schema_extra={"format": "date-time"})
    outcome: Literal["completed", "failed", "released", "lease_expired", "cancelled"]
    error: str | None


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
    run_at: str = Field(json_schema_extra={"format": "date-time"}, description="When it is or was due")
    backoff_seconds: int | None = Field(description="What the waits between retries grow from; null in an old job")
    attempt: int = Field(ge=0, description="Claims so far")
    lease_expires_at: str | None = Field(json_schema_extra={"format": "date-time"})
    lease_expiries: int = Field(ge=0, description="Attempts that ended because their lease did")
    progress: dict[str, Any] | None = _absent_unless("For its creator, its holder, and admins")
    result: Any = _absent_unless("For its creator, its holder, and admins")
    cancel_requested: bool
    replays: int = Field(ge=0, description="How often an admin put it back after its end")
    lease_token: str = _absent_unless("In the answer of the claim alone")
    attempts: list[AttemptView] = _absent_unless("Ended attempts, the first one first; in GET /jobs/{id}, for admins")


class JobPage(BaseModel):
    """Some jobs of a list."""

    jobs: list[JobView]
    next_cursor: str | None = Field(description="Where the next page starts; null on the last page")


class JobList(BaseModel):
    """Jobs that are now held, each with its lease_token."""

    jobs: list[JobView]


class HeartbeatView(BaseModel):
    """A lease."""

    lease_expires_at: str = Field(json_schema_extra={"format": "date-time"})
    cancel_requested: bool = Field(description="Whether to stop: fail or release the job")
    server_time: str = Field(json_schema_extra={"format": "date-time"})


class ReasonView(BaseModel):
    """One reason why a job is where it is."""

    code: Literal["delayed", "backoff", "behind", "no_recent_claim", "running", "ended"]
    detail: str


class ExplanationView(BaseModel):
    """Why a job is where it is."""

    state: Literal["pending", "running", "completed", "failed", "cancelled"]
    reasons: list[ReasonView]


class CountView(BaseModel):
    """How many jobs there are of one kind."""

    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    type: str
    priority: Literal["low", "medium", "high", "critical"]
    count: int


class StatsView(BaseModel):
    """How the queue is doing."""

    jobs: list[CountView]
    running: dict[str, int] = Field(description="Jobs held, by worker_id")
    oldest_due_seconds: float | None = Field(description="How long the oldest due job has waited; null if none is due")
    next_run_at: str | None = Field(
        description="When the next job falls due", json_schema_extra={"format": "date-time"}
    )


class RetriedView(BaseModel):
    """Which jobs were put back, or would be."""

    count: int
    ids: list[int]
    dry_run: bool


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


class ItemView(BaseModel):
    """What became of one job of a batch: the job, or the problem."""

    code: Literal[200, 201, 409]
    job: JobView = _absent_unless(
        "A replayed one without its result, a finished one without payload, progress and result"
    )
    problem: Problem = _absent_unless("In place of the job")


class BatchView(BaseModel):
    """What became of each job of a batch, in order."""

    jobs: list[ItemView]


class BeatItemView(BaseModel):
    """One lease of a batch, or the problem."""

    code: Literal[200, 409]
    lease_expires_at: str = _absent_unless("Until when the job is held")
    cancel_requested: bool = _absent_unless("Whether to stop: fail or release the job")
    server_time: str = _absent_unless("The queue's clock")
    problem: Problem = _absent_unless("In place of the lease")


class BeatsView(BaseModel):
    """What became of each lease of a batch, in order."""

    jobs: list[BeatItemView]
