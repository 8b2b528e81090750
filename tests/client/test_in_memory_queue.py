"""The queue for users' tests: what it is asked, and that it answers as the real one does."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import queuelog
import queuelog_client
from queuelog_client import (
    Beat,
    Claimed,
    Ending,
    Explanation,
    InvalidCursor,
    InvalidJob,
    InvalidRequest,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    NotFound,
    Order,
    Permanent,
    RetryIn,
    RunningJob,
    Tally,
    Tasks,
    Worker,
)
from queuelog_client.testing import NOON, InMemoryQueue, SteppedClock
from tests.support import admin, directory_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_test_asks_what_was_enqueued() -> None:
    queue = InMemoryQueue()
    queue.enqueue(NewJob(type="email", payload={"to": "ada"}, priority=JobPriority.HIGH))
    queue.enqueue(NewJob(type="email", payload={"to": "bob"}))
    assert queue.assert_enqueued("email").id == 2
    assert queue.assert_enqueued("email", payload={"to": "ada"}).id == 1
    assert queue.assert_enqueued("email", priority=JobPriority.HIGH).id == 1
    with pytest.raises(AssertionError, match=r"(?s)no job was enqueued with .*carl.*1 email pending .*ada"):
        queue.assert_enqueued("email", payload={"to": "carl"})
    with pytest.raises(AssertionError, match="there is: nothing"):
        InMemoryQueue().assert_enqueued("email")


@pytest.mark.parametrize("kind", ["worker", "tasks", "functions"])
def test_drain_does_all_that_is_due_and_what_that_enqueues(kind: str) -> None:
    queue = InMemoryQueue()

    def email(job: RunningJob) -> str:
        job.progress({"parts": 1})
        if job.payload.get("copy"):
            queue.enqueue(NewJob(type="email", payload={"to": "me"}))
        return f"sent to {job.payload['to']}"

    functions = {"email": email}
    worker = Worker(InMemoryQueue(), Tasks(functions))
    queue.enqueue(NewJob(type="email", payload={"to": "ada", "copy": True}))
    queue.enqueue(NewJob(type="email", payload={"to": "later"}, delay_seconds=60))
    queue.enqueue(NewJob(type="pdf"))
    tasks = {"worker": worker, "tasks": worker.tasks, "functions": functions}[kind]
    assert queue.drain(tasks) == Tally(claimed=2, completed=2)  # type: ignore[arg-type]
    assert [job.result for job in queue.jobs] == ["sent to ada", None, None, "sent to me"]
    assert queue.jobs[0].progress == {"parts": 1}
    assert queue.clock.now() == NOON
    assert queue.drain(tasks, seconds=60) == Tally(claimed=1, completed=1)  # type: ignore[arg-type]
    assert queue.clock.now() == NOON + timedelta(seconds=60)
    assert queue.jobs[2].status is JobStatus.PENDING


def test_a_day_of_retries_leases_and_delays_is_over_in_a_moment() -> None:
    queue = InMemoryQueue()
    tries: list[int] = []

    def pdf(job: RunningJob) -> None:
        tries.append(round((queue.clock.now() - NOON).total_seconds()))
        if job.attempt < 8:
            raise TimeoutError

    def sync(job: RunningJob) -> None:
        raise Permanent if job.attempt > 1 else RetryIn(3_600)

    queue.enqueue(NewJob(type="pdf", max_retries=7, backoff_seconds=60))
    queue.enqueue(NewJob(type="sync"))
    for hour in range(24):
        queue.enqueue(NewJob(type="email", delay_seconds=hour * 3_600))
    # A worker that has died: its lease has to end first, at a moment at which nothing else is due.
    assert queue.claim(types=["email"], lease_seconds=40_000) is not None
    tally = queue.drain({"pdf": pdf, "sync": sync, "email": lambda _: None}, seconds=86_400)
    assert tally == Tally(claimed=34, completed=25, failed=9)
    waits = [0, 60, 180, 420, 900, 1_860, 3_600]
    assert tries == [sum(waits[: number or 0]) for number in range(8)]
    assert queue.get(3).lease_expiries == 1
    assert (queue.jobs[2].updated_at - NOON).total_seconds() == 40_000
    assert [job.status.value for job in queue.jobs] == ["completed", "failed"] + ["completed"] * 24


def test_what_is_kept_is_what_a_queue_would_give_back() -> None:
    queue = InMemoryQueue()
    inner: list[str] = []
    queue.enqueue(NewJob(type="email", payload={"a": (1, 2), "b": {"c": inner}}))
    inner.append("changed")
    assert queue.get(1).payload == {"a": [1, 2], "b": {"c": []}}
    queue.drain({"email": lambda _: {1: (2,)}})
    assert queue.get(1).result == {"1": [2]}


def test_it_refuses_what_a_queue_refuses() -> None:
    queue = InMemoryQueue()
    with pytest.raises(NotFound):
        queue.get(1)
    for cursor in ("nowhere", "queue-0", "newest-x"):
        with pytest.raises(InvalidCursor):
            queue.list(cursor=cursor)
    for ask in (
        lambda: queue.enqueue_jobs([]),
        lambda: queue.claim_jobs(limit=101),
        lambda: queue.claim(lease_seconds=0),
        lambda: queue.list(limit=0),
        lambda: queue.list(order=Order.QUEUE),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask()
        assert len(refused.value.faults) == 1
    assert queue.is_healthy()


def test_a_stepped_clock_goes_on_by_what_it_is_told() -> None:
    clock = SteppedClock()
    clock.advance(days=1, hours=2, minutes=3, seconds=4.0009)
    assert clock.now() - NOON == timedelta(days=1, hours=2, minutes=3, seconds=4)


TYPES = ["email", "pdf"]
NAMES = [field.name for field in fields(queuelog.Job)]
TOKENS = {"lease_token"}


def plain(value: Any) -> Any:
    """What two answers have in common when they are the same, whichever package's classes they are made of."""
    if isinstance(value, Exception):
        faults = getattr(value, "faults", ())
        return type(value).__name__, [(fault.field, fault.code) for fault in faults]
    if isinstance(value, (queuelog.Job, Job)):
        return {name: getattr(value, name) for name in NAMES if name not in TOKENS}
    if isinstance(value, (queuelog.Explanation, Explanation)):
        return value.state, [reason.code for reason in value.reasons]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (queuelog.QueuelogError, Exception) as error:  # noqa: BLE001
        return error


def end_one(queue: Any, ending: Any) -> Any:
    """End a job by the verb that is for one alone."""
    said = {
        "complete": {"result": ending.result},
        "fail": {
            "error": ending.error,
            "retry_in_seconds": ending.retry_in_seconds,
            "permanent": ending.permanent,
        },
        "release": {},
    }[ending.verb]
    return getattr(queue, ending.verb)(ending.id, lease_token=ending.lease_token, **said)


NEW: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "priority": st.sampled_from([None, 0, 10, 20, 30]),
        "max_retries": st.none() | st.integers(0, 2) | st.just(5),
        "idempotency_key": st.sampled_from([None, None, "k", "l"]),
        "payload": st.sampled_from([None, {}, {"a": 1}, {"a": True}]),
        "delay_seconds": st.sampled_from([None, None, 0, 30]),
        "backoff_seconds": st.sampled_from([None, 0, 7, 3_000]),
    }
)
ID = st.integers(0, 9)
WANTED = st.none() | st.lists(st.sampled_from(TYPES), min_size=1, max_size=2)


class Both(RuleBasedStateMachine):
    """The same calls to the core and to the queue in memory."""

    @initialize(jobs=st.lists(NEW, min_size=4, max_size=6), held=st.integers(2, 4))
    def start(self, jobs: list[dict[str, Any]], held: int) -> None:
        self.folder = directory_in_memory()
        self.clock = SteppedClock()
        self.store = queuelog.Store(Path(self.folder.name) / "queue.db", jitter=lambda: 0.0)
        self.core = queuelog.Queue(self.store).bound(admin("test"), self.clock)
        self.memory = InMemoryQueue(clock=self.clock)
        #: A job's id and its token in each of them, for every claim.
        self.tokens: list[tuple[int, str, str]] = [(1, "nobody's", "nobody's")]
        #: The claims with a request id.
        self.asked: list[dict[str, Any]] = []
        for each in jobs:
            self.enqueue([each])
        self.claim(limit=held, types=None, lease_seconds=None, request_id="r")

    def compare(self, verb: str, core: Callable[[Any], Any], memory: Callable[[Any], Any]) -> tuple[Any, Any]:
        found = outcome(lambda: core(self.core)), outcome(lambda: memory(self.memory))
        assert plain(found[0]) == plain(found[1]), verb
        return found

    def both(self, verb: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        def call(queue: Any) -> Any:
            return getattr(queue, verb)(*arguments, **options)

        return self.compare(verb, call, call)

    def ids(self, *statuses: JobStatus) -> list[int]:
        return [job.id for job in self.memory.jobs if job.status in statuses]

    @rule(jobs=st.lists(NEW, min_size=1, max_size=3))
    def enqueue(self, jobs: list[dict[str, Any]]) -> None:
        def priority(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
            return fields | {"priority": None if fields["priority"] is None else kind(fields["priority"])}

        core = [queuelog.NewJob(**priority(queuelog.JobPriority, each)) for each in jobs]
        memory = [NewJob(**priority(JobPriority, each)) for each in jobs]
        if len(jobs) == 1:
            self.compare("enqueue", lambda queue: queue.enqueue(core[0]), lambda queue: queue.enqueue(memory[0]))
        else:
            self.compare(
                "enqueue_jobs", lambda queue: queue.enqueue_jobs(core), lambda queue: queue.enqueue_jobs(memory)
            )

    @rule(
        limit=st.integers(1, 3),
        types=WANTED,
        lease_seconds=st.sampled_from([None, 20, 600]),
        request_id=st.sampled_from([None, "r", "s"]),
    )
    def claim(self, **options: Any) -> None:
        if options["request_id"]:
            self.asked.append(options)
        core, memory = self.both("claim_jobs", **options)
        if isinstance(memory, Claimed):
            for one, other in zip(core.jobs, memory.jobs, strict=True):
                self.tokens.append((one.id, one.lease_token, str(other.lease_token)))

    @rule(types=WANTED)
    def claim_one(self, types: list[str] | None) -> None:
        one, other = self.both("claim", types=types)
        if other is not None:
            self.tokens.append((one.id, one.lease_token, other.lease_token))

    @rule(data=st.data())
    def repeat_a_claim(self, data: st.DataObject) -> None:
        self.claim(**data.draw(st.sampled_from(self.asked[-3:])))

    @precondition(lambda self: self.ids(JobStatus.RUNNING))
    @rule(data=st.data(), several=st.booleans())
    def finish_held(self, data: st.DataObject, several: bool) -> None:
        held = self.ids(JobStatus.RUNNING)
        chosen = data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=3 if several else 1))
        last = {id: (id, one, other) for id, one, other in self.tokens}
        self.finish(data, [last[id] for id in chosen])

    @rule(data=st.data())
    def finish_with_any_token(self, data: st.DataObject) -> None:
        self.finish(data, [data.draw(st.sampled_from(self.tokens[-6:]))])

    def finish(self, data: st.DataObject, items: list[tuple[int, str, str]]) -> None:
        core, memory = [], []
        for id, one, other in items:
            tokens = data.draw(st.sampled_from([(one, other)] * 5 + [(None, None)]))
            verb = data.draw(st.sampled_from(["complete", "fail", "fail", "fail", "release"]))
            more: dict[str, Any] = {}
            if verb == "complete":
                more = {"result": data.draw(st.sampled_from([None, 0, {"a": [None]}]))}
            elif verb == "fail":
                more = data.draw(st.sampled_from([{}, {}, {"permanent": True}, {"retry_in_seconds": 5}]))
                more = {**more, "error": data.draw(st.sampled_from([None, "boom"]))}
            core.append(queuelog.Ending(id=id, verb=verb, lease_token=tokens[0], **more))
            memory.append(Ending(id=id, verb=verb, lease_token=tokens[1], **more))
        if len(items) == 1 and data.draw(st.booleans()):
            self.compare("finish", lambda queue: end_one(queue, core[0]), lambda queue: end_one(queue, memory[0]))
        else:
            self.compare("finish_jobs", lambda queue: queue.finish_jobs(core), lambda queue: queue.finish_jobs(memory))

    @rule(data=st.data(), lease_seconds=st.sampled_from([None, 1, 100]), progress=st.sampled_from([None, {"a": 1}]))
    def heartbeat(self, data: st.DataObject, **said: Any) -> None:
        id, one, other = data.draw(st.sampled_from(self.tokens[-6:]))
        core, memory = queuelog.Beat(id=id, lease_token=one, **said), Beat(id=id, lease_token=other, **said)
        self.compare(
            "heartbeat_jobs", lambda queue: queue.heartbeat_jobs([core]), lambda queue: queue.heartbeat_jobs([memory])
        )
        self.compare(
            "heartbeat",
            lambda queue: queue.heartbeat(id, lease_token=one, **said),
            lambda queue: queue.heartbeat(id, lease_token=other, **said),
        )

    @rule(id=ID)
    def ask_about_a_job(self, id: int) -> None:
        for verb in ("get", "explain"):
            self.both(verb, id)
        if id in {job.id for job in self.memory.jobs}:
            self.both("attempts", id)

    @rule(verb=st.sampled_from(["cancel", "retry"]), id=ID)
    def call_off_or_put_back(self, verb: str, id: int) -> None:
        self.both(verb, id)

    @precondition(lambda self: self.ids(JobStatus.RUNNING))
    @rule(data=st.data())
    def call_off_what_runs(self, data: st.DataObject) -> None:
        self.both("cancel", data.draw(st.sampled_from(self.ids(JobStatus.RUNNING))))

    @precondition(lambda self: self.ids(JobStatus.FAILED, JobStatus.CANCELLED))
    @rule(data=st.data())
    def put_back_what_ended(self, data: st.DataObject) -> None:
        self.both("retry", data.draw(st.sampled_from(self.ids(JobStatus.FAILED, JobStatus.CANCELLED))))

    @rule(
        status=st.sampled_from([JobStatus.FAILED, JobStatus.CANCELLED]),
        type=st.sampled_from([None, "email"]),
        error_contains=st.sampled_from([None, "o"]),
        limit=st.integers(1, 2),
        dry_run=st.booleans(),
    )
    def retry_jobs(self, status: JobStatus, **wanted: Any) -> None:
        self.compare(
            "retry_jobs",
            lambda queue: queue.retry_jobs(status=queuelog.JobStatus(status), **wanted),
            lambda queue: queue.retry_jobs(status=status, **wanted),
        )

    @rule(seconds=st.sampled_from([0.001, 1, 20, 61, 901]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @precondition(lambda self: self.ids(JobStatus.PENDING, JobStatus.RUNNING))
    @rule(data=st.data())
    def something_is_due(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.ids(JobStatus.PENDING, JobStatus.RUNNING)))
        job = self.memory.get(id)
        wait = ((job.lease_expires_at or job.run_at) - self.clock.now()).total_seconds()
        self.clock.advance(seconds=max(wait, 0))

    @precondition(lambda self: self.ids(JobStatus.RUNNING))
    @rule()
    def sweep(self) -> None:
        swept = self.store.sweep(now=self.clock.now(), may_go_on=lambda: True)
        assert self.memory.sweep() == swept.leases_expired

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.both("stats")
        assert [plain(job) for job in self.core.list(limit=100).jobs] == [plain(job) for job in self.memory.iterate()]
        pending = list(self.memory.iterate(order=Order.QUEUE, status=JobStatus.PENDING))
        queued = self.core.list(order=queuelog.Order.QUEUE, status=queuelog.JobStatus.PENDING, limit=100).jobs
        assert [job.id for job in queued] == [job.id for job in pending]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


Both.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestBoth = Both.TestCase


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("NewJob", {"type": "e mail"}),
    ("NewJob", {"type": "x", "payload": []}),
    ("NewJob", {"type": "x", "payload": {"a": object()}}),
    ("NewJob", {"type": "x", "payload": {"a": "\ud800"}}),
    ("NewJob", {"type": "x", "payload": {"a": "x" * 65_536}}),
    ("NewJob", {"type": "x", "payload": {"a": json.loads("[" * 64 + "]" * 64)}}),
    ("NewJob", {"type": "x", "payload": {"a": json.loads("[" * 63 + "]" * 63)}}),
    ("NewJob", {"type": "x", "max_retries": True, "backoff_seconds": -1, "delay_seconds": 2_592_001}),
    ("NewJob", {"type": "x", "idempotency_key": "\n"}),
    ("NewJob", {"type": "x", "run_at": NOON, "delay_seconds": 0}),
    ("Ending", {"id": 1, "verb": "complete", "result": float("inf")}),
    ("Ending", {"id": 1, "verb": "complete", "result": "x" * 65_536}),
    ("Ending", {"id": 1, "verb": "fail", "retry_in_seconds": 1.5}),
    ("Ending", {"id": 1, "verb": "fail", "retry_in_seconds": 1, "permanent": True}),
    ("Beat", {"id": 1, "lease_token": "t", "lease_seconds": 0}),
    ("Beat", {"id": 1, "lease_token": "t", "progress": {"a": "x" * 4_096}}),
]


@pytest.mark.parametrize(("name", "given"), WRONG, ids=[f"{name} {[*given][-1]}" for name, given in WRONG])
def test_faults_are_found_where_the_core_finds_them(name: str, given: dict[str, Any]) -> None:
    def faults(package: Any) -> object:
        return plain(outcome(lambda: getattr(package, name)(**given) and None))

    assert faults(queuelog) == faults(queuelog_client)


def test_a_time_without_a_zone_is_no_time() -> None:
    with pytest.raises(InvalidJob) as invalid:
        NewJob(type="x", run_at=NOON.replace(tzinfo=None))
    assert [(fault.field, fault.code) for fault in invalid.value.faults] == [("run_at", "invalid_time")]
