"""What can be said of a queue's API: from outside, with a key, and, if that is asked for, with jobs of its own."""

from __future__ import annotations

import json
import secrets
import uuid
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from queuelog_client.cli.app import sentence
from queuelog_client.cli.doctor.findings import Finding, fault, ok, warning
from queuelog_client.cli.output import counted
from queuelog_client.errors import Conflict, Forbidden, InvalidRequest, NoAnswer, NotFound, QueuelogError, Unauthorized
from queuelog_client.job import MAX_ID, Beat, Ending, JobPriority, JobStatus, NewJob
from queuelog_client.transport import USER_AGENT, Connections

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from datetime import datetime

    import urllib3

    from queuelog_client.client import QueueClient
    from queuelog_client.job import Job

    Now = Callable[[], datetime]

#: An id that no job has.
NO_JOB = MAX_ID
NO_LEASE = "queuelog-doctor-holds-no-lease"
#: Seconds that clocks may be apart: with the first a time in a job is off, with the second everything is.
APART, FAR_APART = 2.0, 60.0
LEASE = 30
LATER = 30 * 24 * 60 * 60


def check_api(queue: QueueClient, now: Now) -> Generator[Finding, None, bool]:
    """Look at an API and change nothing: yield what is found; return whether the caller is an admin."""
    connections = Connections(connect_timeout=5.0, read_timeout=30.0, most=1)
    try:
        yield _encryption(queue.url)
        before = now()
        try:
            answer = connections.send("GET", f"{queue.url}/health", {"User-Agent": USER_AGENT}, b"")
        except NoAnswer as error:
            yield fault("reachable", f"{queue.url}: {error}", "See whether it runs, and whether the address is right.")
            return False
        except QueuelogError as error:
            yield fault("reachable", f"{queue.url}: {error}", "Trust nobody there with a key until you know why.")
            return False
        reached = _health(queue.url, answer)
        yield reached
        yield _clock("clock", answer.headers.get("Date"), before, now())
        if reached.check == "address":
            return False
        yield from _authoriser(queue.url, connections)
    except NoAnswer as error:
        yield fault("reachable", f"{queue.url}: {error}", "See why it answers now and then.")
        return False
    finally:
        connections.close()
    return (yield from _caller(queue.once()))


def _encryption(url: str) -> Finding:
    parts = urlsplit(url)
    if parts.scheme == "https":
        return ok("tls", f"{parts.hostname} is called with TLS, and its certificate is checked.")
    return ok("tls", f"{parts.hostname} is this machine: nothing is encrypted, and nothing leaves it.")


def _health(url: str, answer: urllib3.BaseHTTPResponse) -> Finding:
    if answer.status == 200 and _json(answer.data) == {"status": "ok"}:
        return ok("reachable", f"{url} is there, and reaches its file system.")
    if answer.status == 503:
        return fault(
            "reachable", "The API is there; its file system is not.", "Look at the mount and the functions' logs."
        )
    if answer.status in {429, 500, 502, 504}:
        advice = "Look at the functions' logs and at the throttling."
        return fault("reachable", f"The API answers HTTP {answer.status}.", advice)
    advice = "Correct the address: that of a stack ends in /v1."
    return fault("address", f"What answers at {url} is no queue (HTTP {answer.status}).", advice)


def _clock(check: str, date: str | None, before: datetime, after: datetime) -> Finding:
    try:
        server = parsedate_to_datetime(date or "")
    except ValueError:
        return warning(check, "The answer doesn't say when it was given.", "Compare the clocks by hand.")
    # It tells whole seconds, so that the server's time is within the one that begins with it.
    return _apart(
        check, "The server's clock", (server - after).total_seconds(), (server - before).total_seconds() + 1.0
    )


def _apart(check: str, whose: str, least: float, most: float) -> Finding:
    """Judge a clock that is ahead of ours by something between two numbers of seconds."""
    seconds = least if least > 0 else -most if most < 0 else 0.0
    which = "ahead of" if least > 0 else "behind"
    if seconds <= APART:
        return ok(check, f"{whose} and this machine's agree.")
    said = f"{whose} is {seconds:,.0f} s {which} this machine's."
    if seconds <= FAR_APART:
        return warning(check, said, "Set this machine's clock: run_at is read by the server's.")
    advice = "Set the clock that is wrong: times in jobs are off, and signatures fail five minutes apart."
    return fault(check, said, advice)


def _authoriser(url: str, connections: Connections) -> Iterator[Finding]:
    made_up = f"ql_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
    doors = [
        ("no key", "/jobs", {}, {401}),
        ("a made-up key", "/jobs", {"X-Api-Key": made_up}, {401}),
        ("no signature", "/iam/jobs", {}, {401, 403}),
    ]
    for who, path, headers, refusals in doors:
        answer = connections.send("GET", f"{url}{path}?limit=1", {"User-Agent": USER_AGENT, **headers}, b"")
        if answer.status in refusals:
            yield ok("authoriser", f"Who comes with {who} is turned away.")
        elif 200 <= answer.status < 300:
            advice = "Take the API off the network now: everyone can come in."
            yield fault("authoriser", f"Who comes with {who} is let in.", advice)
        else:
            said = f"Who comes with {who} is answered HTTP {answer.status}, and not turned away."
            yield fault("authoriser", said, "Look at the log of AuthorizeFunction: can it read the registry?")


def _caller(queue: QueueClient) -> Generator[Finding, None, bool]:
    try:
        jobs = queue.list(limit=1).jobs
        roles = [
            role
            for role, act in (
                ("producer", lambda: queue.cancel(NO_JOB)),
                ("worker", lambda: queue.release(NO_JOB, lease_token=NO_LEASE)),
                ("admin", queue.stats),
            )
            if _may(act)
        ]
        yield ok("key", f"The caller is let in, and may do what is for: {', '.join(roles) or 'nobody'}.")
        if jobs:
            queue.get(jobs[0].id)
            if "producer" in roles:
                queue.explain(jobs[0].id)
        yield ok("reads", "What only looks, answers: list, get, explain and stats, as far as the caller may.")
    except Unauthorized as error:
        yield fault("key", str(error), "It is mistyped, revoked or expired: see queuelog keys list, and make another.")
        return False
    except QueuelogError as error:
        yield fault("reads", f"A call that only looks failed: {error}", "Look at the functions' logs.")
        return False
    return "admin" in roles


def _may(act: Callable[[], object]) -> bool:
    try:
        act()
    except Forbidden:
        return False
    except (NotFound, Conflict):
        pass
    return True


class Unfit(Exception):
    """A verb did something else than it should."""


def check_verbs(queue: QueueClient, type: str, now: Now, *, is_admin: bool) -> Iterator[Finding]:
    """Send two jobs through every verb and yield what is found; they end completed, unless something is wrong."""
    if not is_admin:
        advice = "Come with an admin's key."
        yield fault("verbs", "Not tried: only an admin can see whether others use that type.", advice)
        return
    tour = _Tour(queue.once(), type, now)
    try:
        if found := tour.others():
            advice = "Choose a type that nothing uses: somebody's job could be claimed, or these by somebody's worker."
            yield fault("verbs", f"Not tried: the type {type} is in use, by {counted(found, 'job')}.", advice)
            return
        tour.run()
    except InvalidRequest as error:
        yield fault("verbs", f"{tour.verb} was refused: {sentence(error)}", "Choose a type that this queue takes.")
    except (QueuelogError, Unfit) as error:
        advice = "Look at the functions' logs, and whether a worker claims that type."
        yield fault("verbs", f"{tour.verb} went wrong: {error}", advice)
    else:
        yield ok("verbs", f"Every verb does what it should: {', '.join(tour.done)}.")
        yield tour.clock
    finally:
        left = tour.clean_up()
    if left:
        yield warning("verbs", f"Left behind: jobs {', '.join(map(str, left))}.", "Cancel them: queuelog cancel.")


class _Tour:
    """A way through every verb. What it claims that is not its own it gives back at once."""

    def __init__(self, queue: QueueClient, type: str, now: Now) -> None:
        self.verb = "stats"
        self.done: list[str] = []
        self._queue = queue
        self._type = type
        self._now = now
        self._ours: list[int] = []
        self._held: dict[int, str] = {}

    def others(self) -> int:
        """Return how many jobs of the type wait or run."""
        waiting = {JobStatus.PENDING, JobStatus.RUNNING}
        return sum(each.jobs for each in self._queue.stats().jobs if each.type == self._type and each.status in waiting)

    def run(self) -> None:
        """Use every verb; raise Unfit, QueuelogError."""
        queue, call = self._queue, self._call
        new = NewJob(
            type=self._type,
            payload={"queuelog": "doctor"},
            priority=JobPriority.LOW,
            max_retries=0,
            idempotency_key=f"queuelog-doctor-{uuid.uuid4()}",
            delay_seconds=LATER,
        )
        made = call("enqueue", lambda: queue.enqueue(new), lambda it: not it.replayed)
        id = made.job.id
        self._ours.append(id)
        call("enqueue", lambda: queue.enqueue(new), lambda it: it.replayed and it.job.id == id)
        call("get", lambda: queue.get(id), lambda it: it.payload == new.payload)
        call("list", lambda: queue.list(type=self._type, limit=1), lambda it: it.jobs[0].id == id)
        call("explain", lambda: queue.explain(id), lambda it: it.reasons[0].code == "delayed")
        call("cancel", lambda: queue.cancel(id), lambda it: it.status is JobStatus.CANCELLED)
        call("retry", lambda: queue.retry(id), lambda it: it.status is JobStatus.PENDING)
        token = self._claim(id)
        before = self._now()
        beat = call("heartbeat", lambda: queue.heartbeat(id, lease_token=token), lambda it: not it.cancel_requested)
        after = self._now()
        self.clock = _apart(
            "functions-clock",
            "The functions' clock",
            (beat.server_time - after).total_seconds(),
            (beat.server_time - before).total_seconds(),
        )
        call("release", lambda: queue.release(id, lease_token=token), lambda it: it.status is JobStatus.PENDING)
        token = self._claim(id)
        call(
            "fail",
            lambda: queue.fail(id, lease_token=token, error="queuelog doctor", permanent=True),
            lambda it: it.status is JobStatus.FAILED,
        )
        call("attempts", lambda: queue.attempts(id), lambda it: it[-1].outcome == "failed")
        failed = JobStatus.FAILED
        call("retry_jobs", lambda: queue.retry_jobs(status=failed, type=self._type, dry_run=True), lambda it: id in it)
        queue.retry(id)
        token = self._claim(id)
        call("complete", lambda: queue.complete(id, lease_token=token, result={"ok": True}), _has_ended)
        self._many()

    def _many(self) -> None:
        queue, call = self._queue, self._call
        new = NewJob(type=self._type, payload={"queuelog": "doctor"}, priority=JobPriority.LOW, max_retries=0)
        made = call("enqueue_jobs", lambda: queue.enqueue_jobs([new]), lambda it: not it[0].replayed)
        id = made[0].job.id
        self._ours.append(id)
        claimed = call(
            "claim_jobs", lambda: queue.claim_jobs(limit=1, types=[self._type], lease_seconds=LEASE), lambda _: True
        )
        token = self._token(id, claimed.jobs[0] if claimed.jobs else None)
        beat = Beat(id=id, lease_token=token)
        call("heartbeat_jobs", lambda: queue.heartbeat_jobs([beat]), lambda it: not isinstance(it[0], QueuelogError))
        end = Ending(id=id, verb="complete", lease_token=token, result={"ok": True})
        call("finish_jobs", lambda: queue.finish_jobs([end]), lambda it: it[0].status is JobStatus.COMPLETED)

    def clean_up(self) -> list[int]:
        """Cancel what has not ended; return the jobs that could not be."""
        left = []
        for id in self._ours:
            try:
                if self._queue.get(id).status in {JobStatus.PENDING, JobStatus.RUNNING}:
                    self._queue.cancel(id)
                if id in self._held and self._queue.get(id).status is JobStatus.RUNNING:
                    # What is to be cancelled is not given to another.
                    self._queue.release(id, lease_token=self._held[id])
            except QueuelogError:
                left.append(id)
        return left

    def _claim(self, id: int) -> str:
        claimed = self._call(
            "claim", lambda: self._queue.claim(types=[self._type], lease_seconds=LEASE), lambda _: True
        )
        return self._token(id, claimed)

    def _token(self, id: int, claimed: Job | None) -> str:
        if claimed is None:
            holder = self._queue.get(id).worker_id
            raise Unfit(f"nothing was there to claim; {holder or 'nobody'} has the job.")
        token = str(claimed.lease_token)
        if claimed.id != id:
            self._queue.release(claimed.id, lease_token=token)
            raise Unfit(f"it gave job {claimed.id}, which is somebody else's and was given back at once.")
        self._held[id] = token
        return token

    def _call(self, verb: str, act: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
        self.verb = verb
        found = act()
        if not is_right(found):
            raise Unfit("the answer is not what it should be.")
        if verb not in self.done:
            self.done.append(verb)
        return found


def _has_ended(job: Job) -> bool:
    return job.status is JobStatus.COMPLETED and job.result == {"ok": True}


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
