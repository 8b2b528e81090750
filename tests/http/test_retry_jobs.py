"""POST /batch/retry"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success
from tests.support import add_jobs

if TYPE_CHECKING:
    from tests.http.support import Api


def ended(api: Api) -> None:
    """Make jobs 1 to 6: five that failed, a second apart and for several reasons, and one that was cancelled."""
    for error, kind in (
        ("refused", "email"),
        ("refused twice", "pdf"),
        (None, "email"),
        ("Refused", "sync"),
        ("", "pdf"),
    ):
        id = api.new_job(type=kind)["id"]
        assert api.claimed_job()["id"] == id
        success(api.fail(id, error=error, permanent=True))
        api.clock.advance(seconds=1)
    api.new_job()
    success(api.cancel(6))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "failed"}, [1, 2, 3, 4, 5]),
        ({"status": "cancelled"}, [6]),
        ({"status": "failed", "type": "pdf"}, [2, 5]),
        ({"status": "failed", "type": "fax"}, []),
        ({"status": "failed", "error_contains": "refused"}, [1, 2]),
        ({"status": "failed", "error_contains": "%"}, []),
        ({"status": "failed", "error_contains": "refused", "type": "email"}, [1]),
        ({"status": "failed", "failed_after": "2026-01-31T12:00:02Z"}, [4, 5]),
        ({"status": "failed", "failed_after": "2026-01-31T13:00:02+01:00"}, [4, 5]),
        ({"status": "failed", "failed_before": "2026-01-31T12:00:02Z"}, [1, 2]),
        (
            {
                "status": "failed",
                "failed_after": "2026-01-31T12:00:00Z",
                "failed_before": "2026-01-31T12:00:03Z",
            },
            [2, 3],
        ),
        ({"status": "failed", "limit": 2}, [1, 2]),
        ({"status": "failed", "limit": 1_000}, [1, 2, 3, 4, 5]),
        ({"status": "failed", "type": None, "error_contains": None, "failed_after": None}, [1, 2, 3, 4, 5]),
        ({"status": "cancelled", "error_contains": "refused"}, []),
    ],
    ids=lambda value: str(value)[:70] if isinstance(value, dict) else "",
)
def test_what_passes_every_filter_is_put_back_and_a_dry_run_only_says_which(
    api: Api, fields: dict[str, Any], expected: list[int]
) -> None:
    ended(api)
    before = success(api.list())
    answer = api.retry_jobs(**fields, dry_run=True)
    assert list(success(answer).items()) == [("count", len(expected)), ("ids", expected), ("dry_run", True)]
    assert success(api.list()) == before
    assert success(api.retry_jobs(**fields)) == {"count": len(expected), "ids": expected, "dry_run": False}
    jobs = success(api.list())["jobs"]
    assert sorted(job["id"] for job in jobs if job["status"] == "pending") == expected
    assert {job["replays"] for job in jobs if job["id"] in expected} <= {1}
    assert {job["run_at"] for job in jobs if job["id"] in expected} <= {"2026-01-31T12:00:05.000Z"}
    # They are pending now, and so no longer among those that pass.
    assert not set(success(api.retry_jobs(**fields))["ids"]) & set(expected)


def test_a_job_is_put_back_as_a_single_retry_would(api: Api) -> None:
    for id in (1, 2):
        api.new_job()
        api.claimed_job()
        api.fail(id, permanent=True)
    api.clock.advance(seconds=5)
    single = success(api.retry(1))
    success(api.retry_jobs(status="failed"))
    batched = success(api.get(2))
    assert batched.pop("attempts")
    assert batched | {"id": 1} == single


def test_those_that_ended_first_are_put_back_first_and_named_in_ascending_order(api: Api) -> None:
    for _ in range(3):
        api.new_job()
    for id in (3, 1, 2):
        api.cancel(id)
        api.clock.advance(seconds=1)
    assert success(api.retry_jobs(status="cancelled", limit=2))["ids"] == [1, 3]


def test_a_hundred_are_put_back_unless_told_and_a_thousand_at_the_most(api: Api) -> None:
    success(api.list())
    add_jobs(api.database, 1_200, status="'failed'")
    assert success(api.retry_jobs(status="failed"))["count"] == 100
    answer = success(api.retry_jobs(status="failed", limit=1_000))
    assert answer["count"] == 1_000
    assert answer["ids"] == sorted(answer["ids"])
    assert success(api.retry_jobs(status="failed", limit=1_000))["count"] == 100
    assert_problem(api.retry_jobs(status="failed", limit=1_001), 422, "validation-failed")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ("status", "missing")),
        ({"status": None}, ("status", "unknown_status")),
        ({"status": "pending"}, ("status", "unknown_status")),
        ({"status": "running"}, ("status", "unknown_status")),
        ({"status": "completed"}, ("status", "unknown_status")),
        ({"status": "FAILED"}, ("status", "unknown_status")),
        ({"status": ["failed"]}, ("status", "unknown_status")),
        ({"status": "failed", "type": "a b"}, ("type", "string_pattern_mismatch")),
        ({"status": "failed", "error_contains": ""}, ("error_contains", "string_too_short")),
        ({"status": "failed", "error_contains": "x" * 1_001}, ("error_contains", "string_too_long")),
        ({"status": "failed", "error_contains": 1}, ("error_contains", "string_type")),
        ({"status": "failed", "failed_after": "yesterday"}, ("failed_after", "invalid_time")),
        ({"status": "failed", "failed_after": "2026-01-31T12:00:00"}, ("failed_after", "invalid_time")),
        ({"status": "failed", "failed_before": 1_769_860_800}, ("failed_before", "invalid_time")),
        ({"status": "failed", "limit": 0}, ("limit", "greater_than_equal")),
        ({"status": "failed", "limit": 1_001}, ("limit", "less_than_equal")),
        ({"status": "failed", "limit": "5"}, ("limit", "int_type")),
        ({"status": "failed", "limit": None}, ("limit", "int_type")),
        ({"status": "failed", "dry_run": "yes"}, ("dry_run", "bool_type")),
        ({"status": "failed", "dry_run": 1}, ("dry_run", "bool_type")),
        ({"status": "failed", "dry_run": None}, ("dry_run", "bool_type")),
        ({"status": "failed", "ids": [1]}, ("ids", "extra_forbidden")),
        ({"status": "failed", "dryrun": True}, ("dryrun", "extra_forbidden")),
    ],
    ids=lambda value: str(value)[:70] if isinstance(value, dict) else "",
)
def test_a_wrong_field_is_a_fault_and_retries_nothing(api: Api, fields: dict[str, Any], fault: tuple[str, str]) -> None:
    api.new_job()
    api.cancel(1)
    assert assert_problem(api.retry_jobs(**fields), 422, "validation-failed") == {fault}
    assert success(api.get(1))["status"] == "cancelled"


def test_nobody_but_an_admin_retries(api: Api) -> None:
    for caller in (PRODUCER, WORKER):
        assert_problem(api.retry_jobs(caller, status="failed"), 403, "forbidden")
    assert success(api.retry_jobs(ADMIN, status="failed")) == {"count": 0, "ids": [], "dry_run": False}
