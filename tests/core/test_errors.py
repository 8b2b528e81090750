from __future__ import annotations

import inspect

import pytest

from queuelog import Conflict, Fault, InvalidCursor, InvalidJob, NotFound, QueuelogError, StorageBusy, errors

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, QueuelogError)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: str(cls.__name__))
def test_an_error_s_docstring_is_its_message(cls: type[QueuelogError]) -> None:
    assert str(cls()) == " ".join((cls.__doc__ or "").split())
    assert str(cls())[0].isupper()
    assert str(cls()).endswith(".")


def test_the_place_that_raises_may_know_more() -> None:
    assert str(NotFound("No such job.")) == "No such job."


def test_a_message_stands_on_one_line() -> None:
    assert "\n" not in str(StorageBusy())


def test_an_invalid_request_carries_its_faults() -> None:
    fault = Fault("type", "missing", "is required")
    assert InvalidJob(faults=(fault,)).faults == (fault,)
    assert InvalidJob().faults == ()
    assert [each.field for each in InvalidCursor().faults] == ["cursor"]


def test_one_except_catches_every_error_of_the_queue() -> None:
    with pytest.raises(QueuelogError):
        raise Conflict
