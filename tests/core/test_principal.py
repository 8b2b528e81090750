from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING

import pytest

from queuelog import (
    Beat,
    BoundQueue,
    Conflict,
    Ending,
    Forbidden,
    JobPriority,
    JobStatus,
    NewJob,
    NotFound,
    Principal,
    Queue,
    Role,
    SystemClock,
)
from queuelog.principal import ALLOWED
from tests.support import SteppedClock, admin, producer, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

P, W, A = Role.PRODUCER, Role.WORKER, Role.ADMIN
#: Who may use each verb.
VERBS = {
    "attempts": {A},
    "cancel": {P, A},
    "claim": {W, A},
    "complete": {W, A},
    "enqueue": {P, A},
    "explain": {P, A},
    "fail": {W, A},
    "get": {P, W, A},
    "heartbeat": {W, A},
    "list": {P, W, A},
    "release": {W, A},
    "retry": {A},
    "stats": {A},
}
#: Those that take many jobs at once ask for the same roles.
BATCHES = {"claim_jobs", "enqueue_jobs", "finish_jobs", "heartbeat_jobs", "retry_jobs"}
#: Those that neither write a time nor compare one.
TIMELESS = {"attempts", "get", "list"}


def test_a_principal_may_use_every_type_and_medium_priority_unless_told() -> None:
    who = producer()
    assert who.types is None
    assert who.may_use("anything")
    assert who.max_priority is JobPriority.MEDIUM


def test_an_admin_may_use_every_priority_unless_told() -> None:
    assert admin().max_priority is JobPriority.CRITICAL
    assert admin(max_priority=JobPriority.LOW).max_priority is JobPriority.LOW


def test_an_empty_list_of_types_is_none_of_them() -> None:
    assert not producer(types=frozenset()).may_use("email")


def test_a_worker_id_is_the_name_unless_told() -> None:
    assert worker().worker_id == "worker"
    assert worker("1:role/Mail", worker_id="1:role/Mail/i-1").worker_id == "1:role/Mail/i-1"


def test_a_principal_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        producer().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("role", Role)
def test_each_verb_has_its_roles(verb: str, role: Role) -> None:
    who = Principal(name="x", roles=frozenset({role}))
    if role in VERBS[verb]:
        who.require(verb)
    else:
        with pytest.raises(Forbidden, match=r"This needs the role admin( or (producer|worker))?\."):
            who.require(verb)


@pytest.mark.parametrize(
    ("call", "verb"),
    [
        (lambda caller: caller.attempts(1), "attempts"),
        (lambda caller: caller.cancel(1), "cancel"),
        (lambda caller: caller.claim(), "claim"),
        (lambda caller: caller.claim_jobs(limit=2), "claim"),
        (lambda caller: caller.complete(1), "complete"),
        (lambda caller: caller.enqueue(NewJob(type="email")), "enqueue"),
        (lambda caller: caller.enqueue_jobs([NewJob(type="email")]), "enqueue"),
        (lambda caller: caller.explain(1), "explain"),
        (lambda caller: caller.fail(1), "fail"),
        (lambda caller: caller.finish_jobs([Ending(id=1, verb="complete")]), "complete"),
        (lambda caller: caller.finish_jobs([Ending(id=1, verb="fail")]), "fail"),
        (lambda caller: caller.get(1), "get"),
        (lambda caller: caller.heartbeat(1, lease_token="t"), "heartbeat"),
        (lambda caller: caller.heartbeat_jobs([Beat(id=1, lease_token="t")]), "heartbeat"),
        (lambda caller: caller.list(), "list"),
        (lambda caller: caller.release(1), "release"),
        (lambda caller: caller.retry(1), "retry"),
        (lambda caller: caller.retry_jobs(status=JobStatus.FAILED), "retry"),
        (lambda caller: caller.stats(), "stats"),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_every_verb_asks_for_its_role_before_anything_else(
    queue: Queue, call: Callable[[BoundQueue], object], verb: str, role: Role
) -> None:
    caller = queue.bound(Principal(name="x", roles=frozenset({role})), SteppedClock())
    try:
        call(caller)
    except Forbidden:
        assert role not in VERBS[verb]
    except (Conflict, NotFound):
        assert role in VERBS[verb]
    else:
        assert role in VERBS[verb]


def test_every_verb_of_the_queue_has_roles() -> None:
    public = {name for name in vars(Queue) if not name.startswith("_")}
    assert public - {"bound"} - BATCHES == set(ALLOWED) == set(VERBS)
    assert public > BATCHES


@pytest.mark.parametrize("verb", sorted({*VERBS} | BATCHES))
def test_every_verb_starts_with_its_principal_and_time_and_a_bound_queue_knows_them(verb: str) -> None:
    parameters = list(inspect.signature(getattr(Queue, verb)).parameters)
    expected = ["self", "principal"] if verb in TIMELESS else ["self", "principal", "now"]
    assert parameters[: len(expected)] == expected
    assert "now" not in parameters[len(expected) :]
    bound = getattr(BoundQueue, verb)
    assert bound.__wrapped__ is getattr(Queue, verb)
    assert bound.__doc__ == getattr(Queue, verb).__doc__


def test_a_bound_queue_has_every_verb_and_no_other() -> None:
    public = {name for name in vars(BoundQueue) if not name.startswith("_")}
    assert public - {"clock", "principal", "queue"} == {*VERBS} | BATCHES


def test_a_bound_queue_tells_the_machine_s_time_unless_it_is_given_a_clock(queue: Queue) -> None:
    before = SystemClock().now()
    made = queue.bound(producer()).enqueue(NewJob(type="email")).job
    assert before.replace(microsecond=0) <= made.created_at <= SystemClock().now()
    assert isinstance(queue.bound(producer()).clock, SystemClock)
    clock = SteppedClock()
    assert queue.bound(producer(), clock).clock is clock


def test_nothing_below_a_bound_queue_reads_the_clock(path: Path) -> None:
    # Every verb that writes a time takes it as an argument that has no default.
    for verb in ({*VERBS} | BATCHES) - TIMELESS:
        assert inspect.signature(getattr(Queue, verb)).parameters["now"].default is inspect.Parameter.empty
