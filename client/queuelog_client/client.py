from __future__ import annotations

import uuid
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from queuelog_client.auth import ApiKey, Signature
from queuelog_client.errors import Conflict, Forbidden, QueuelogError, UnexpectedAnswer, error_of
from queuelog_client.job import (
    MAX_BATCH,
    OUTCOMES,
    Attempt,
    Claimed,
    Ending,
    Enqueued,
    Explanation,
    Heartbeat,
    Job,
    JobStatus,
    Order,
    Page,
    Stats,
    Why,
    timestamp,
)
from queuelog_client.retries import NONE, Retries
from queuelog_client.transport import Connections, Transport, checked_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from queuelog_client.auth import Auth
    from queuelog_client.job import Beat, JobPriority, NewJob

Found = TypeVar("Found")

DEFAULT_RETRIES = Retries()


class QueueClient:
    """The verbs of a queue over its HTTP API, as the core's bound queue has them.

    Every verb may raise a RequestRefused, a TryAgain once the retries are spent, and UnexpectedAnswer. All but
    retry_jobs are repeated without doing anything twice: an enqueue has an idempotency key, a claim a request id, what
    ends or extends a lease its token. Threads may share a client.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        auth: Literal["iam"] | None = None,
        region: str | None = None,
        session: Any | None = None,
        retries: Retries = DEFAULT_RETRIES,
        connect_timeout: float = 5.0,
        read_timeout: float = 30.0,
        connections: int = 16,
        allow_http: bool = False,
    ) -> None:
        """Take the API's address and either a key or auth="iam"; nothing is sent yet. Raise ValueError.

        region: for a signature, where the address doesn't name it. session: botocore's or boto3's, asked for its
        credentials at every request; default botocore's own. Time-outs are seconds; the API answers within 29.
        connections: kept open, at the most. allow_http: without it http is for this machine alone.
        """
        if (api_key is None) == (auth is None):
            raise ValueError('give either api_key or auth="iam"')
        base = checked_url(url, allow_http=allow_http)
        entry: Auth = Signature(base, region, session) if api_key is None else ApiKey(api_key)
        pool = Connections(connect_timeout=connect_timeout, read_timeout=read_timeout, most=connections)
        self._transport = Transport(base, entry, pool, retries)

    def __repr__(self) -> str:
        return f"QueueClient({self._transport.url!r})"

    @property
    def url(self) -> str:
        """The API's address, without a slash or a door at its end."""
        return self._transport.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._transport.connections.close()

    def once(self) -> QueueClient:
        """Return a client that repeats nothing, over the same connections: for whoever repeats calls itself."""
        client = object.__new__(type(self))
        client._transport = self._transport.with_retries(NONE)
        return client

    def enqueue(self, job: NewJob) -> Enqueued:
        """Add a job, or return the one that the same key made; raise IdempotencyKeyReused."""
        answer = self._transport.post("/jobs", _keyed(job).sent())
        return Enqueued(_read(Job.from_json, answer.body), replayed=answer.status == HTTPStatus.OK)

    def enqueue_jobs(self, jobs: Sequence[NewJob]) -> tuple[Enqueued, ...]:
        """Add up to 100 jobs in one transaction, as enqueue does; when one of them is refused, none is added."""
        answer = self._transport.post("/batch/enqueue", {"jobs": [_keyed(job).sent() for job in jobs]})
        return _read(
            lambda body: tuple(
                Enqueued(Job.from_json(each["job"]), replayed=each["code"] == HTTPStatus.OK) for each in body["jobs"]
            ),
            answer.body,
        )

    def list(
        self,
        *,
        status: JobStatus | None = None,
        type: str | None = None,
        priority: JobPriority | None = None,
        limit: int = 50,
        cursor: str | None = None,
        order: Order = Order.NEWEST,
    ) -> Page:
        """Return up to `limit` jobs (1 to 100) that you may see; a page can be short and still have a next one.

        Raises InvalidCursor. The order queue needs status=pending.
        """
        asked = {
            "status": status,
            "type": type,
            "priority": None if priority is None else priority.label,
            "limit": limit,
            "cursor": cursor,
            "order": order,
        }
        answer = self._transport.get("/jobs", asked)
        return _read(
            lambda body: Page(tuple(map(Job.from_json, body["jobs"])), body["next_cursor"]),
            answer.body,
        )

    def iterate(
        self,
        *,
        status: JobStatus | None = None,
        type: str | None = None,
        priority: JobPriority | None = None,
        order: Order = Order.NEWEST,
    ) -> Iterator[Job]:
        """Yield every job of a list, a page of 100 after the other as they are needed."""
        cursor = None
        while True:
            page = self.list(status=status, type=type, priority=priority, limit=MAX_BATCH, cursor=cursor, order=order)
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return

    def get(self, id: int) -> Job:
        """Return one job, for an admin with its attempts; raise NotFound if there is none or you may not see it."""
        return _read(Job.from_json, self._transport.get(f"/jobs/{id:d}").body)

    def attempts(self, id: int) -> tuple[Attempt, ...]:
        """Return a job's ended attempts, the first one first; raise NotFound, and Forbidden unless you are an admin."""
        attempts = self.get(id).attempts
        if attempts is None:
            raise Forbidden("This needs the role admin.")
        return attempts

    def claim(
        self,
        *,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Job | None:
        """Take the due job of the highest priority, the oldest first, and hold it; None when none is due.

        types: only these; None is every type that you may use. lease_seconds: 1 to 43,200; default the queue's.
        request_id: while its lease is held, the same id gets the same job and token again; default a new one.
        """
        answer = self._transport.post("/jobs/claim", _wanted(types, lease_seconds), _request_id(request_id))
        return None if answer.body is None else _read(Job.from_json, answer.body)

    def claim_jobs(
        self,
        *,
        limit: int = 1,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Claimed:
        """Take up to `limit` jobs (1 to 100) as claim does, as many as one answer has room for."""
        wanted = {"limit": limit, **_wanted(types, lease_seconds)}
        answer = self._transport.post("/batch/claim", wanted, _request_id(request_id))
        if answer.body is None:
            return Claimed((), _read(int, answer.headers.get("Retry-After", "1")))
        return _read(lambda body: Claimed(tuple(map(Job.from_json, body["jobs"])), 0), answer.body)

    def complete(self, id: int, *, lease_token: str | None = None, result: Any = None) -> Job:
        """Finish a job that you hold; raise Conflict if it is not running or another's.

        lease_token: the claim's; with it a repeat finds the job as it is now, and LeaseLost is raised when the lease
        was taken back. result: up to 64 KB of JSON for the creator.
        """
        return self._end(Ending(id=id, verb="complete", lease_token=lease_token, result=result))

    def fail(
        self,
        id: int,
        *,
        lease_token: str | None = None,
        error: str | None = None,
        retry_in_seconds: int | None = None,
        permanent: bool = False,
    ) -> Job:
        """Give up on an attempt: pending again while the job has retries left, else failed; raise as complete does.

        The first retry is at once, then the waits double; retry_in_seconds sets this one, and permanent says that no
        retry will help.
        """
        ending = Ending(
            id=id,
            verb="fail",
            lease_token=lease_token,
            error=error,
            retry_in_seconds=retry_in_seconds,
            permanent=permanent,
        )
        return self._end(ending)

    def release(self, id: int, *, lease_token: str | None = None) -> Job:
        """Give a job back unfinished, without spending a retry; raise as complete does."""
        return self._end(Ending(id=id, verb="release", lease_token=lease_token))

    def finish_jobs(self, endings: Sequence[Ending]) -> tuple[Job | QueuelogError, ...]:
        """Complete, fail or release up to 100 jobs in one transaction; for each, in order, the job or why not."""
        items = [
            _without_none({"id": ending.id, "outcome": OUTCOMES[ending.verb], **_said_at_the_end(ending)})
            for ending in endings
        ]
        answer = self._transport.post("/batch/finish", {"jobs": items})
        return _read(
            lambda body: tuple(_item(each, Job.from_json, each.get("job")) for each in body["jobs"]), answer.body
        )

    def heartbeat(
        self,
        id: int,
        *,
        lease_token: str,
        lease_seconds: int | None = None,
        progress: dict[str, Any] | None = None,
    ) -> Heartbeat:
        """Hold a job for longer: lease_seconds from now, as many as the claim said when left out, and never shorter.

        You learn whether the job is to be cancelled. progress: up to 4 KB of JSON. Raises LeaseLost when the lease was
        taken back; one that has only ended is revived.
        """
        said = {"lease_token": lease_token, "lease_seconds": lease_seconds, "progress": progress}
        return _read(Heartbeat.from_json, self._transport.post(f"/jobs/{id:d}/heartbeat", said).body)

    def heartbeat_jobs(self, beats: Sequence[Beat]) -> tuple[Heartbeat | QueuelogError, ...]:
        """Hold up to 100 jobs for longer, in one transaction, as heartbeat does; for each, in order, what it gets."""
        items = [
            _without_none(
                {
                    "id": beat.id,
                    "lease_token": beat.lease_token,
                    "lease_seconds": beat.lease_seconds,
                    "progress": beat.progress,
                }
            )
            for beat in beats
        ]
        answer = self._transport.post("/batch/heartbeat", {"jobs": items})
        return _read(lambda body: tuple(_item(each, Heartbeat.from_json, each) for each in body["jobs"]), answer.body)

    def cancel(self, id: int) -> Job:
        """Cancel a pending job, or ask a running one's worker to stop; raise NotFound, or Conflict once it ended."""
        return self._ended_as_asked(f"/jobs/{id:d}/cancel", id, JobStatus.CANCELLED)

    def retry(self, id: int) -> Job:
        """Put a failed or cancelled job back as it began, due now; raise NotFound, or Conflict in any other status."""
        return self._ended_as_asked(f"/jobs/{id:d}/retry", id, JobStatus.PENDING)

    def retry_jobs(
        self,
        *,
        status: JobStatus,
        type: str | None = None,
        error_contains: str | None = None,
        failed_after: datetime | None = None,
        failed_before: datetime | None = None,
        limit: int = 100,
        dry_run: bool = False,
    ) -> tuple[int, ...]:
        """Retry up to `limit` (1 to 1,000) ended jobs that pass, those that ended first; return their ids, ascending.

        dry_run: only say which they would be. A second call would retry others, so this one is not repeated when it
        may have been carried out: after an InternalError, NoAnswer or StorageUnavailable look first.
        """
        said = {
            "status": status,
            "type": type,
            "error_contains": error_contains,
            "failed_after": None if failed_after is None else timestamp(failed_after),
            "failed_before": None if failed_before is None else timestamp(failed_before),
            "limit": limit,
            "dry_run": dry_run,
        }
        answer = self._transport.post("/batch/retry", said, may_repeat=dry_run)
        return _read(lambda body: tuple(map(int, body["ids"])), answer.body)

    def explain(self, id: int) -> Explanation:
        """Say why a job is where it is; raise NotFound."""
        answer = self._transport.get(f"/jobs/{id:d}/explain")
        return _read(
            lambda body: Explanation(
                JobStatus(body["state"]), tuple(Why(each["code"], each["detail"]) for each in body["reasons"])
            ),
            answer.body,
        )

    def stats(self) -> Stats:
        """Return how many jobs there are and how the queue is doing."""
        return _read(Stats.from_json, self._transport.get("/stats").body)

    def is_healthy(self) -> bool:
        """Say whether the queue's file system can be reached; asked once and without credentials; raise NoAnswer."""
        return self._transport.is_healthy()

    def _end(self, ending: Ending) -> Job:
        answer = self._transport.post(f"/jobs/{ending.id:d}/{ending.verb}", _said_at_the_end(ending))
        return _read(Job.from_json, answer.body)

    def _ended_as_asked(self, path: str, id: int, wanted: JobStatus) -> Job:
        try:
            return _read(Job.from_json, self._transport.post(path, {}).body)
        except Conflict as refused:
            # A repeat finds what the lost first try has done, and the API takes that for a refusal.
            if refused.is_repeat:
                job = self.get(id)
                if job.status is wanted:
                    return job
            raise


def _keyed(job: NewJob) -> NewJob:
    # A lost answer can then be asked for again.
    return job if job.idempotency_key is not None else replace(job, idempotency_key=uuid.uuid4().hex)


def _request_id(request_id: str | None) -> dict[str, str]:
    return {"Claim-Request-Id": request_id or uuid.uuid4().hex}


def _wanted(types: Collection[str] | None, lease_seconds: int | None) -> dict[str, Any]:
    return {"types": None if types is None else sorted(types), "lease_seconds": lease_seconds}


def _said_at_the_end(ending: Ending) -> dict[str, Any]:
    return {
        "lease_token": ending.lease_token,
        "result": ending.result,
        "error": ending.error,
        "retry_in_seconds": ending.retry_in_seconds,
        # Said only when it is so: complete and release have no such field.
        "permanent": ending.permanent or None,
    }


def _without_none(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def _item(item: Mapping[str, Any], read: Callable[[Any], Found], found: Any) -> Found | QueuelogError:
    if item["code"] >= HTTPStatus.BAD_REQUEST:
        return error_of(item["code"], item.get("problem"))
    return read(found)


def _read(read: Callable[[Any], Found], body: Any) -> Found:
    try:
        return read(body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnexpectedAnswer(f"The answer can't be read: {type(error).__name__} ({error}).") from error
