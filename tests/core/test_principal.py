from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError

import pytest

from queuelog import BoundQueue, Forbidden, JobPriority, NewJob, Principal, Queue, Role, SystemClock
from queuelog.principal import ALLOWED
from tests.support import SteppedClock, admin, producer, worker

VERBS = ["claim", "complete", "enqueue", "fail", "get", "list"]


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
    may = {"enqueue": {Role.PRODUCER, Role.ADMIN}, "list": set(Role), "get": set(Role)}
    who = Principal(name="x", roles=frozenset({role}))
    if role in may.get(verb, {Role.WORKER, Role.ADMIN}):
        who.require(verb)
    else:
        with pytest.raises(Forbidden, match=r"This needs the role admin or (producer|worker)\."):
            who.require(verb)


def test_every_verb_of_the_queue_has_roles() -> None:
    public = {name for name in vars(Queue) if not name.startswith("_")}
    assert public - {"bound"} == set(ALLOWED) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_bound_queue_has_the_same_verbs_without_principal_and_time(verb: str) -> None:
    free = inspect.signature(getattr(Queue, verb))
    parameters = [each for name, each in free.parameters.items() if name not in {"principal", "now"}]
    assert inspect.signature(getattr(BoundQueue, verb)) == free.replace(parameters=parameters)


def test_a_bound_queue_tells_the_machine_s_time_unless_it_is_given_a_clock(queue: Queue) -> None:
    before = SystemClock().now()
    made = queue.bound(producer()).enqueue(NewJob(type="email")).job
    assert before.replace(microsecond=0) <= made.created_at <= SystemClock().now()
    assert isinstance(queue.bound(producer()).clock, SystemClock)
    clock = SteppedClock()
    assert queue.bound(producer(), clock).clock is clock
    assert isinstance(BoundQueue(queue, producer()).clock, SystemClock)


def test_every_verb_that_writes_a_time_is_told_it() -> None:
    for verb in ("claim", "complete", "enqueue", "fail"):
        assert inspect.signature(getattr(Queue, verb)).parameters["now"].default is inspect.Parameter.empty
