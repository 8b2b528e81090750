"""The whole queue against a plain model of it, through whatever sequence of calls Hypothesis thinks of."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queuelog import (
    Beat,
    Claimed,
    Ending,
    Explanation,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    Order,
    Principal,
    Queue,
    QueuelogError,
    Role,
    Store,
)
from tests.model import ENDED, Model, refusal
from tests.support import (
    SteppedClock,
    admin,
    directory_in_memory,
    miscounted,
    producer,
    query,
    token_of,
    unaccounted,
    worker,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

TYPES = ["email", "pdf", "sync"]
BOSS = admin("boss")
PEOPLE = [
    producer("shop"),
    producer("bank", types=frozenset({"email", "pdf"}), max_priority=JobPriority.HIGH),
    worker("mail"),
    worker("post", types=frozenset({"pdf", "sync"})),
    worker("idle", types=frozenset()),
    Principal(name="1:role/Both", roles=frozenset({Role.PRODUCER, Role.WORKER}), worker_id="1:role/Both/a"),
    Principal(name="1:role/Both", roles=frozenset({Role.PRODUCER, Role.WORKER}), worker_id="1:role/Both/b"),
    BOSS,
]
# Every line that this runs has a test of its own, which is measured.
pytestmark = pytest.mark.no_cover
#: A claim takes back so many expired leases at the most, in an order that the model knows nothing of.
MOST_JOBS = 10
DAY = 86_400


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or how it was refused; refusals inside a batch become classes."""
    try:
        found = call()
    except QueuelogError as error:
        return refusal(error)
    if type(found) is tuple:
        return tuple(type(each) if isinstance(each, QueuelogError) else each for each in found)
    if isinstance(found, Explanation):
        return found.state, [reason.code for reason in found.reasons]
    return found


WHO = st.sampled_from(PEOPLE)
PRODUCER = st.sampled_from([who for who in PEOPLE if Role.WORKER not in who.roles]) | WHO
HOLDER = st.sampled_from([who for who in PEOPLE if Role.WORKER in who.roles]) | st.just(BOSS)
STORE = st.integers(0, 1)
ID = st.integers(0, 12)
SECONDS = st.none() | st.sampled_from([1, 20, 600])
REQUEST = st.none() | st.sampled_from(["r", "s"])
NEW = st.builds(
    NewJob,
    type=st.sampled_from(TYPES),
    priority=st.none() | st.sampled_from(JobPriority),
    max_retries=st.none() | st.integers(0, 2),
    idempotency_key=st.none() | st.sampled_from(["k", "l", "m"]),
    payload=st.sampled_from([None, {}, {"a": 1}]),
    delay_seconds=st.sampled_from([None, None, None, 0, 1, 30]),
    backoff_seconds=st.none() | st.sampled_from([0, 7]),
)
SAID: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"lease_seconds": SECONDS, "progress": st.sampled_from([None, {"done": 1}, {}])}
)


@st.composite
def endings(draw: st.DrawFn, ids: st.SearchStrategy[int], tokens: st.SearchStrategy[str | None]) -> Ending:
    verb = draw(st.sampled_from(["complete", "fail", "fail", "fail", "release"]))
    ending = Ending(id=draw(ids), verb=verb, lease_token=draw(tokens))
    if verb == "complete":
        return replace(ending, result=draw(st.sampled_from([None, 1, {"a": [None]}])))
    if verb == "fail":
        retry = draw(st.sampled_from([{}, {}, {"permanent": True}, {"retry_in_seconds": 0}, {"retry_in_seconds": 5}]))
        return replace(ending, error=draw(st.sampled_from([None, "boom", "mailbox full"])), **retry)  # type: ignore[arg-type]
    return ending


class QueueMachine(RuleBasedStateMachine):
    """Two stores on one file, as two functions have them, and everybody calls either."""

    network: bool

    @initialize(jobs=st.lists(NEW, min_size=4, max_size=6), held=st.integers(1, 4))
    def start(self, jobs: list[NewJob], held: int) -> None:
        self.folder = directory_in_memory()
        self.path = Path(self.folder.name) / "queue.db"
        self.clock = SteppedClock()
        self.model = Model()
        self.turn = 0
        #: Every token there ever was, with its job and its holder.
        self.tokens: list[tuple[str, int, Principal]] = []
        #: The claims with a request id, and who made them.
        self.asked: list[tuple[Principal, dict[str, Any]]] = []
        self.gone: list[Store] = []
        self.stores = [self.store(), self.store()]
        for each in jobs:
            self.compare(0, BOSS, "enqueue", replace(each, idempotency_key=None))
        self.claim(0, PEOPLE[2], lease_seconds=None, request_id="r", limit=held)

    def store(self) -> Store:
        return Store(self.path, network=self.network, jitter=lambda: 0.0)

    @property
    def jobs(self) -> list[Job]:
        return list(self.model.jobs.values())

    def real(self, number: int, who: Principal, verb: str, *arguments: Any, **options: Any) -> object:
        caller = Queue(self.stores[number]).bound(who, self.clock)
        return outcome(lambda: getattr(caller, verb)(*arguments, **options))

    def expected(self, who: Principal, verb: str, *arguments: Any, **options: Any) -> object:
        timed: tuple[datetime, ...] = () if verb in {"attempts", "get"} else (self.clock.now(),)
        return outcome(lambda: getattr(self.model, verb)(who, *timed, *arguments, **options))

    def compare(self, number: int, who: Principal, verb: str, *arguments: Any, **options: Any) -> object:
        found = self.real(number, who, verb, *arguments, **options)
        assert found == self.expected(who, verb, *arguments, **options)
        return found

    def an_id(self, data: st.DataObject, *statuses: JobStatus) -> int:
        """Draw the id of a job, if possible in one of these statuses."""
        wanted = [job.id for job in self.jobs if job.status in statuses] or list(self.model.jobs)
        return data.draw(st.sampled_from(wanted))

    @precondition(lambda self: len(self.model.jobs) < MOST_JOBS)
    @rule(number=STORE, who=PRODUCER, new=NEW)
    def enqueue(self, number: int, who: Principal, new: NewJob) -> None:
        self.compare(number, who, "enqueue", new)

    @precondition(lambda self: len(self.model.jobs) <= MOST_JOBS - 4)
    @rule(number=STORE, who=PRODUCER, jobs=st.lists(NEW, min_size=1, max_size=4))
    def enqueue_jobs(self, number: int, who: Principal, jobs: list[NewJob]) -> None:
        self.compare(number, who, "enqueue_jobs", jobs)

    @precondition(lambda self: self.model.keys and len(self.model.jobs) < MOST_JOBS)
    @rule(number=STORE, data=st.data(), stranger=st.booleans())
    def enqueue_again(self, number: int, data: st.DataObject, stranger: bool) -> None:
        (name, _), (new, _) = data.draw(st.sampled_from(list(self.model.keys.items())))
        who = data.draw(WHO) if stranger else next(each for each in PEOPLE if each.name == name)
        self.compare(number, who, "enqueue", replace(new))

    @precondition(lambda self: any(job.status is JobStatus.PENDING for job in self.jobs))
    @rule(number=STORE, who=HOLDER, lease_seconds=SECONDS, request_id=REQUEST, limit=st.integers(1, 4))
    def claim(self, number: int, who: Principal, **asked: Any) -> None:
        self.compare_claims(number, who, types=None, **asked)

    @rule(number=STORE, who=WHO, types=st.lists(st.sampled_from(TYPES), max_size=2), limit=st.integers(1, 2))
    def claim_some_types(self, number: int, who: Principal, types: list[str], limit: int) -> None:
        self.compare_claims(number, who, types=types, lease_seconds=None, request_id=None, limit=limit)

    @precondition(lambda self: self.asked)
    @rule(number=STORE, data=st.data(), other=st.booleans())
    def claim_again(self, number: int, data: st.DataObject, other: bool) -> None:
        who, asked = data.draw(st.sampled_from(self.asked[-3:]))
        self.compare_claims(number, who, **asked | ({"limit": 9} if other else {}))

    def compare_claims(self, number: int, who: Principal, **asked: Any) -> None:
        found = self.real(number, who, "claim_jobs", **asked)
        expected = self.expected(who, "claim_jobs", **asked)
        if isinstance(found, Claimed) and isinstance(expected, Claimed):
            assert len(found.jobs) == len(expected.jobs)
            jobs = tuple(starmap(partial(self.learned, who), zip(found.jobs, expected.jobs, strict=True)))
            expected = Claimed(jobs, expected.retry_after)
            if asked["request_id"] is not None:
                self.asked.append((who, asked))
        assert found == expected

    def learned(self, who: Principal, found: Job, expected: Job) -> Job:
        if expected.lease_token is None:
            self.model.learn(expected.id, token_of(found))
            self.tokens.append((token_of(found), expected.id, who))
            return replace(expected, lease_token=found.lease_token)
        return expected

    @precondition(lambda self: self.model.leases)
    @rule(number=STORE, data=st.data(), again=st.booleans(), late=st.booleans())
    def finish(self, number: int, data: st.DataObject, again: bool, late: bool) -> None:
        id = data.draw(st.sampled_from(list(self.model.leases)))
        holder = next(who for who in PEOPLE if who.worker_id == self.model.jobs[id].worker_id)
        ending = data.draw(endings(st.just(id), st.just(self.model.leases[id].token)))
        if late:
            self.clock.advance(seconds=601)
        for _ in range(1 + again):
            assert self.compare(number, holder, "finish_jobs", [ending]) == (self.model.jobs[id],)

    @precondition(lambda self: self.tokens)
    @rule(number=STORE, data=st.data())
    def finish_many(self, number: int, data: st.DataObject) -> None:
        """End attempts of one holder, by tokens that are new, old, somebody else's or left out."""
        _, _, who = data.draw(st.sampled_from(self.tokens[-4:]))
        known = [(id, token) for token, id, holder in self.tokens if holder == who]
        right = st.sampled_from(known[-4:]).flatmap(lambda each: endings(st.just(each[0]), st.just(each[1])))
        tokens: list[str | None] = [None, "nobody's", *(token for token, _, _ in self.tokens)]
        wrong = endings(ID | st.sampled_from([id for id, _ in known]), st.sampled_from(tokens))
        self.compare(number, who, "finish_jobs", data.draw(st.lists(right | wrong, min_size=1, max_size=5)))

    @precondition(lambda self: self.model.leases)
    @rule(number=STORE, data=st.data(), said=SAID)
    def heartbeat(self, number: int, data: st.DataObject, said: dict[str, Any]) -> None:
        id = data.draw(st.sampled_from(list(self.model.leases)))
        holder = next(who for who in PEOPLE if who.worker_id == self.model.jobs[id].worker_id)
        beat = Beat(id=id, lease_token=self.model.leases[id].token, **said)
        assert isinstance(self.compare(number, holder, "heartbeat_jobs", [beat]), tuple)

    @precondition(lambda self: self.tokens)
    @rule(number=STORE, data=st.data(), stranger=st.booleans())
    def heartbeat_many(self, number: int, data: st.DataObject, stranger: bool) -> None:
        known = data.draw(st.lists(st.sampled_from(self.tokens[-6:]), min_size=1, max_size=4))
        who = data.draw(WHO) if stranger else known[0][2]
        beats = [Beat(id=id, lease_token=token, **data.draw(SAID)) for token, id, _ in known]
        self.compare(number, who, "heartbeat_jobs", beats)

    @precondition(lambda self: self.model.jobs)
    @rule(number=STORE, data=st.data(), by_creator=st.booleans())
    def cancel(self, number: int, data: st.DataObject, by_creator: bool) -> None:
        id = self.an_id(data, JobStatus.PENDING, JobStatus.RUNNING)
        creator = next(who for who in PEOPLE if who.name == self.model.jobs[id].created_by)
        self.compare(number, creator if by_creator else BOSS, "cancel", id)

    @precondition(lambda self: self.model.jobs)
    @rule(number=STORE, data=st.data())
    def retry(self, number: int, data: st.DataObject) -> None:
        self.compare(number, BOSS, "retry", self.an_id(data, JobStatus.FAILED, JobStatus.CANCELLED))

    @precondition(lambda self: any(job.status in {JobStatus.FAILED, JobStatus.CANCELLED} for job in self.jobs))
    @rule(
        number=STORE,
        status=st.sampled_from([JobStatus.FAILED, JobStatus.CANCELLED]),
        type=st.none() | st.sampled_from(TYPES),
        error_contains=st.sampled_from([None, "boom", "o"]),
        recent=st.booleans(),
        limit=st.integers(1, 3),
        dry_run=st.booleans(),
    )
    def retry_jobs(self, number: int, recent: bool, **wanted: Any) -> None:
        after = min(job.updated_at for job in self.jobs) if recent else None
        self.compare(number, BOSS, "retry_jobs", failed_after=after, **wanted)

    @rule(number=STORE, who=WHO, id=ID)
    def try_everything(self, number: int, who: Principal, id: int) -> None:
        """Ask as anybody about any job, and for what hardly anybody may do."""
        for verb in ("get", "explain", "attempts", "cancel", "retry"):
            self.compare(number, who, verb, id)
        for verb in ("complete", "fail", "release"):
            self.compare(number, who, "finish_jobs", [Ending(id=id, verb=verb)])

    @rule(
        number=STORE,
        who=WHO,
        status=st.none() | st.sampled_from(JobStatus),
        type=st.none() | st.sampled_from(TYPES),
        priority=st.none() | st.sampled_from(JobPriority),
        limit=st.integers(1, 4),
    )
    def list_jobs(self, number: int, who: Principal, limit: int, **wanted: Any) -> None:
        expected = [job for job in reversed(self.jobs) if self.wanted(who, job, **wanted)]
        assert self.listed(number, who, limit=limit, order=Order.NEWEST, **wanted) == expected
        pending = {**wanted, "status": JobStatus.PENDING}
        expected = [job for job in self.model.queued(None) if self.wanted(who, job, **pending)]
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

    @rule(number=STORE)
    def sweep(self, number: int) -> None:
        found = self.stores[number].sweep(now=self.clock.now(), may_go_on=lambda: True)
        assert found == self.model.sweep(self.clock.now())

    @rule(seconds=st.sampled_from([0.001, 1, 20, 61, 901, -0.5, -30, -3_600]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data())
    def a_lease_ends(self, data: st.DataObject) -> None:
        ends = self.model.jobs[data.draw(st.sampled_from(list(self.model.leases)))].lease_expires_at
        assert ends is not None
        self.clock.advance(seconds=max((ends - self.clock.now()).total_seconds(), 0))

    @precondition(lambda self: any(job.status in ENDED for job in self.jobs))
    @rule(days=st.sampled_from([7, 30]))
    def much_time_passes(self, days: int) -> None:
        self.clock.advance(seconds=days * DAY + 1)

    @rule(number=STORE, abruptly=st.booleans())
    def begin_again(self, number: int, abruptly: bool) -> None:
        # Between two transactions a crash is a store that nobody closes.
        self.gone.append(self.stores[number])
        if not abruptly:
            self.stores[number].close()
        self.stores[number] = self.store()

    @invariant()
    def the_file_holds_what_the_model_holds(self) -> None:
        if hasattr(self, "stores"):
            assert self.listed(0, BOSS, limit=100) == self.jobs[::-1]

    @invariant()
    def the_counters_are_those_of_a_full_count(self) -> None:
        if hasattr(self, "stores"):
            self.compare(0, BOSS, "stats")

    @invariant()
    def one_after_the_other_sees_what_is_theirs_and_one_job_is_accounted_for(self) -> None:
        if not hasattr(self, "stores"):
            return
        # All of them at every step would take most of the time.
        self.turn += 1
        who = PEOPLE[self.turn % len(PEOPLE)]
        expected = [job for job in reversed(self.jobs) if self.model.visible(who, job)]
        assert self.listed(1, who, limit=100) == expected
        id = self.turn % (self.model.last_id + 1)
        self.compare(1, BOSS, "attempts", id)
        self.compare(1, BOSS, "explain", id)
        if self.turn % 8 == 0:
            self.the_file_is_sound()

    def the_file_is_sound(self) -> None:
        assert miscounted(self.path) == set()
        assert unaccounted(self.path) == []
        assert query(self.path, "PRAGMA integrity_check") == [("ok",)]

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        try:
            for id in range(1, self.model.last_id + 1):
                self.compare(0, BOSS, "attempts", id)
            self.the_file_is_sound()
        finally:
            for store in self.stores + self.gone:
                store.close()
            self.folder.cleanup()


class LocalQueue(QueueMachine):
    network = False


class NetworkQueue(QueueMachine):
    network = True


LocalQueue.TestCase.settings = settings(max_examples=60, stateful_step_count=50)
# The verbs are the same; what differs is the file, which takes four times as long.
NetworkQueue.TestCase.settings = settings(max_examples=20, stateful_step_count=50)
TestLocalQueue = LocalQueue.TestCase
TestNetworkQueue = NetworkQueue.TestCase
