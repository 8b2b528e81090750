"""V-02: the type of a job is any string, so a caller can make workers run what nobody meant them to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.conftest import forget
from tests.http.support import ADMIN, PRODUCER, assert_problem, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

TYPES = [
    "shell",
    "os.system",
    "email2",
    "Email",
    "email\n",
    "email\x00",
    "email; rm -rf /",
    "../email",
    "${jndi:x}",
    "",
    "*",
]


@pytest.mark.parametrize("job_type", TYPES)
def test_a_type_that_the_stack_does_not_name_is_refused_to_everyone(api: Api, job_type: str) -> None:
    for caller in (PRODUCER, ADMIN, with_key("shop", "producer", types=[job_type])):
        ((field, code),) = assert_problem(api.enqueue(caller, type=job_type), 422, "validation-failed")
        assert (field, code) in {("type", "unknown_type"), ("type", "string_pattern_mismatch")}
    assert not api.database.exists()


def test_a_type_that_the_callers_key_does_not_name_is_refused_to_that_caller(api: Api) -> None:
    assert_problem(api.enqueue(with_key("shop", "producer", types=["pdf"]), type="email"), 403, "forbidden")
    assert_problem(api.enqueue(with_key("shop", "producer", types=[]), type="email"), 403, "forbidden")
    assert not api.database.exists()


def test_a_stack_that_names_no_type_takes_no_job(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "")
    forget()
    assert_problem(api.enqueue(ADMIN), 422, "validation-failed")
