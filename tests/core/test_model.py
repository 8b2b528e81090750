"""The whole queue against a plain model of it, through whatever sequence of calls Hypothesis thinks of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queuelog import (
    Conflict,
    Forbidden,
    IdempotencyKeyReused,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    NotFound,
    Order,
    Principal,
    Queue,
    QueuelogError,
    Reason,
    Role,
    Store,
)
from tests.support import SteppedClock, admin, directory_in_memory, producer, query, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

MEDIUM, HIGH = JobPriority.MEDIUM, JobPriority.HIGH
TYPES = ["email", "pdf", "sync"]
PEOPLE = [
    producer("shop"),
    producer("bank", types=frozenset({"email", "pdf"}), max_priority=HIGH),
    worker("mail"),
    worker("post", types=frozenset({"pdf", "sync"})),
    worker("idle", types=frozenset()),
    Principal(name="1:role/Both", roles=frozenset({Role.PRODUCER, Role.WORKER}), worker_id="1:role/Both/a"),
    Principal(name="1:role/Both", roles=frozenset({Role.PRODUCER, Role.WORKER}), worker_id="1:role/Both/b"),
    admin("boss"),
]


class Model:
    """The rules in plain Python: a list of jobs, in the order of their ids, and what each key was used for."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.due: dict[int, datetime] = {}
        self.keys: dict[tuple[str, str], tuple[NewJob, int]] = {}

    def enqueue(self, who: Principal, new: NewJob, now: datetime) -> tuple[Job, bool]:
        priority = MEDIUM if new.priority is None else new.priority
        may_use = who.types is None or new.type in who.types
        if not who.roles & {Role.PRODUCER, Role.ADMIN} or not may_use or priority > (who.max_priority or 0):
            raise Forbidden
        if new.idempotency_key is not None and (who.name, new.idempotency_key) in self.keys:
            known, id = self.keys[who.name, new.idempotency_key]
            if known != new:
                raise IdempotencyKeyReused
            return self.jobs[id - 1], True
        job = Job(
            id=len(self.jobs) + 1,
            type=new.type,
            payload=new.payload or {},
            priority=priority,
            status=JobStatus.PENDING,
            retry_count=0,
            max_retries=3 if new.max_retries is None else new.max_retries,
            idempotency_key=new.idempotency_key,
            claimed_at=None,
            worker_id=None,
            error=None,
            created_at=now,
            updated_at=now,
            reason=None,
            created_by=who.name,
        )
        self.jobs.append(job)
        self.due[job.id] = now
        if new.idempotency_key is not None:
            self.keys[who.name, new.idempotency_key] = (new, job.id)
        return job, False

    def claim(self, who: Principal, types: list[str] | None, now: datetime) -> Job | None:
        asked = set(TYPES if types is None else types)
        granted = set(TYPES) if who.types is None else set(who.types)
        if not who.roles & {Role.WORKER, Role.ADMIN} or (types is not None and asked - granted):
            raise Forbidden
        due = [job for job in self.queued(asked & granted) if self.due[job.id] <= now]
        if not due:
            return None
        return self.put(due[0], status=JobStatus.RUNNING, claimed_at=now, worker_id=who.worker_id, updated_at=now)

    def complete(self, who: Principal, id: int, now: datetime) -> Job:
        return self.put(self.held(who, id), status=JobStatus.COMPLETED, updated_at=now)

    def fail(self, who: Principal, id: int, error: str | None, now: datetime) -> Job:
        job = self.held(who, id)
        job = self.put(job, error=error, reason=Reason.FAILED, updated_at=now)
        if job.retry_count == job.max_retries:
            return self.put(job, status=JobStatus.FAILED)
        count = job.retry_count + 1
        return self.put(job, status=JobStatus.PENDING, retry_count=count, claimed_at=None, worker_id=None)

    def get(self, who: Principal, id: int) -> Job:
        if not 1 <= id <= len(self.jobs) or not self.visible(who, self.jobs[id - 1]):
            raise NotFound
        return self.jobs[id - 1]

    def held(self, who: Principal, id: int) -> Job:
        if not who.roles & {Role.WORKER, Role.ADMIN}:
            raise Forbidden
        if not 1 <= id <= len(self.jobs):
            raise Conflict
        job = self.jobs[id - 1]
        if job.status is not JobStatus.RUNNING or job.worker_id != who.worker_id:
            raise Conflict
        return job

    def visible(self, who: Principal, job: Job) -> bool:
        created = Role.PRODUCER in who.roles and job.created_by == who.name
        holds = Role.WORKER in who.roles and job.worker_id == who.worker_id
        return Role.ADMIN in who.roles or created or holds

    def queued(self, types: set[str]) -> list[Job]:
        pending = [job for job in self.jobs if job.status is JobStatus.PENDING and job.type in types]
        return sorted(pending, key=lambda job: (-job.priority, self.due[job.id], job.id))

    def put(self, job: Job, **changes: Any) -> Job:
        self.jobs[job.id - 1] = replace(job, **changes)
        return self.jobs[job.id - 1]


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except QueuelogError as error:
        return type(error)


WHO = st.sampled_from(PEOPLE)
STORE = st.integers(0, 1)
ID = st.integers(0, 12)


class QueueMachine(RuleBasedStateMachine):
    """Two stores on one file, as two functions have them, and everybody calls either."""

    network: bool

    @initialize()
    def start(self) -> None:
        self.folder = directory_in_memory()
        self.path = Path(self.folder.name) / "queue.db"
        self.clock = SteppedClock()
        self.model = Model()
        self.turn = 0
        self.gone: list[Store] = []
        self.stores = [self.store(), self.store()]

    def store(self) -> Store:
        return Store(self.path, network=self.network)

    def compare(self, number: int, who: Principal, verb: str, *arguments: Any, **options: Any) -> object:
        now = self.clock.now()
        caller = Queue(self.stores[number]).bound(who, self.clock)
        timed = () if verb == "get" else (now,)
        expected = outcome(lambda: getattr(self.model, verb)(who, *arguments, *options.values(), *timed))
        found = outcome(lambda: getattr(caller, verb)(*arguments, **options))
        assert found == expected
        return found

    @rule(
        number=STORE,
        who=WHO,
        type=st.sampled_from(TYPES),
        priority=st.none() | st.sampled_from(JobPriority),
        max_retries=st.none() | st.integers(0, 2),
        key=st.none() | st.sampled_from(["k", "l"]),
        payload=st.sampled_from([None, {}, {"a": 1}]),
    )
    def enqueue(self, number: int, who: Principal, key: str | None, **fields: Any) -> None:
        self.compare(number, who, "enqueue", NewJob(**fields, idempotency_key=key))

    @rule(number=STORE, who=WHO, data=st.data())
    def enqueue_again(self, number: int, who: Principal, data: st.DataObject) -> None:
        if self.model.keys:
            known, _ = data.draw(st.sampled_from(list(self.model.keys.values())))
            self.compare(number, who, "enqueue", replace(known))

    @rule(number=STORE, who=WHO, types=st.none() | st.lists(st.sampled_from(TYPES), max_size=2))
    def claim(self, number: int, who: Principal, types: list[str] | None) -> None:
        self.compare(number, who, "claim", types=types)

    @precondition(lambda self: any(job.status is JobStatus.PENDING for job in self.model.jobs))
    @rule(number=STORE, who=st.sampled_from([PEOPLE[2], PEOPLE[6], PEOPLE[7]]))
    def claim_anything(self, number: int, who: Principal) -> None:
        self.compare(number, who, "claim", types=None)

    @rule(number=STORE, who=WHO, id=ID)
    def complete(self, number: int, who: Principal, id: int) -> None:
        self.compare(number, who, "complete", id)

    @rule(number=STORE, who=WHO, id=ID, error=st.sampled_from([None, "boom", "mailbox full"]))
    def fail(self, number: int, who: Principal, id: int, error: str | None) -> None:
        self.compare(number, who, "fail", id, error=error)

    @precondition(lambda self: any(job.status is JobStatus.RUNNING for job in self.model.jobs))
    @rule(number=STORE, data=st.data(), verb=st.sampled_from(["complete", "fail"]))
    def finish_what_is_held(self, number: int, data: st.DataObject, verb: str) -> None:
        job = data.draw(st.sampled_from([job for job in self.model.jobs if job.status is JobStatus.RUNNING]))
        holder = next(who for who in PEOPLE if who.worker_id == job.worker_id)
        error = {"error": "again"} if verb == "fail" else {}
        assert isinstance(self.compare(number, holder, verb, job.id, **error), Job)

    @rule(number=STORE, who=WHO, id=ID)
    def get(self, number: int, who: Principal, id: int) -> None:
        self.compare(number, who, "get", id)

    @rule(
        number=STORE,
        who=WHO,
        status=st.none() | st.sampled_from(JobStatus),
        type=st.none() | st.sampled_from(TYPES),
        priority=st.none() | st.sampled_from(JobPriority),
        limit=st.integers(1, 4),
    )
    def list_newest(self, number: int, who: Principal, limit: int, **wanted: Any) -> None:
        expected = [job for job in reversed(self.model.jobs) if self.wanted(who, job, **wanted)]
        assert self.listed(number, who, limit=limit, order=Order.NEWEST, **wanted) == expected

    @rule(
        number=STORE,
        who=WHO,
        type=st.none() | st.sampled_from(TYPES),
        priority=st.none() | st.sampled_from(JobPriority),
        limit=st.integers(1, 4),
    )
    def list_queue(self, number: int, who: Principal, limit: int, **wanted: Any) -> None:
        pending = {"status": JobStatus.PENDING, **wanted}
        expected = [job for job in self.model.queued(set(TYPES)) if self.wanted(who, job, **pending)]
        assert self.listed(number, who, limit=limit, order=Order.QUEUE, **pending) == expected

    def wanted(self, who: Principal, job: Job, **wanted: Any) -> bool:
        matches = all(value is None or getattr(job, name) == value for name, value in wanted.items())
        return matches and self.model.visible(who, job)

    def listed(self, number: int, who: Principal, **wanted: Any) -> list[Job]:
        caller = Queue(self.stores[number]).bound(who, self.clock)
        page = caller.list(**wanted)
        found = [*page.jobs]
        while page.next_cursor is not None:
            page = caller.list(cursor=page.next_cursor, **wanted)
            found += page.jobs
        return found

    @rule(seconds=st.sampled_from([0.001, 1, 3_600, -0.5]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @rule(number=STORE)
    def reopen(self, number: int) -> None:
        self.stores[number].close()

    @rule(number=STORE)
    def crash(self, number: int) -> None:
        # Between two transactions a crash is a store that nobody closes.
        self.gone.append(self.stores[number])
        self.stores[number] = self.store()

    @invariant()
    def the_file_holds_what_the_model_holds(self) -> None:
        if hasattr(self, "stores"):
            assert self.listed(0, PEOPLE[-1], limit=100) == self.model.jobs[::-1]

    @invariant()
    def everyone_sees_what_is_theirs(self) -> None:
        if hasattr(self, "stores"):
            # One after the other: all of them at every step would take most of the time.
            self.turn = (self.turn + 1) % len(PEOPLE)
            who = PEOPLE[self.turn]
            expected = [job for job in reversed(self.model.jobs) if self.model.visible(who, job)]
            assert self.listed(1, who, limit=100) == expected

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        verdict = query(self.path, "PRAGMA integrity_check")
        for store in self.stores + self.gone:
            store.close()
        self.folder.cleanup()
        assert verdict == [("ok",)]


class LocalQueue(QueueMachine):
    network = False


class NetworkQueue(QueueMachine):
    network = True


LENGTHS = settings(max_examples=60, stateful_step_count=40)
LocalQueue.TestCase.settings = LENGTHS
NetworkQueue.TestCase.settings = LENGTHS
TestLocalQueue = LocalQueue.TestCase
TestNetworkQueue = NetworkQueue.TestCase
