"""V-02: the type of a job is any string, so a caller can make workers run what nobody meant them to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.conftest import forget
from tests.http.support import ADMIN, PRODUCER, assert_problem, success, with_key

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


def test_one_such_type_in_a_batch_refuses_all_of_it(api: Api) -> None:
    jobs = [{"type": "email"}, {"type": "shell"}]
    for caller in (PRODUCER, ADMIN, with_key("shop", "producer", types=["email", "shell"])):
        answer = api.enqueue_jobs(jobs, caller)
        assert assert_problem(answer, 422, "validation-failed") == {("jobs[1].type", "unknown_type")}
    caller = with_key("shop", "producer", types=["email"])
    answer = api.enqueue_jobs([{"type": "email"}, {"type": "pdf"}], caller)
    assert assert_problem(answer, 403, "forbidden") == {("jobs[1].type", "forbidden")}
    assert success(api.list())["jobs"] == []


def test_a_worker_takes_no_types_but_its_own_many_at_a_time_either(api: Api) -> None:
    for kind in ("email", "pdf"):
        api.new_job(type=kind)
    worker = with_key("mailer", "worker", types=["pdf"])
    assert_problem(api.claim_jobs(worker, limit=10, types=["email"]), 403, "forbidden")
    assert [job["type"] for job in api.claimed_jobs(worker)] == ["pdf"]
    # Nor does it take back a lease of another type, which would count as a failure of that job.
    api.claimed_job()
    api.clock.advance(seconds=60)
    assert [job["type"] for job in api.claimed_jobs(worker)] == ["pdf"]
    assert success(api.get(1))["status"] == "running"
