from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

from queuelog import JobPriority, JobStatus, NewJob, Reason
from tests.support import add_jobs, claim, query

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue

LONG = "printf('%*c', 256, 'x')"
LATE = "'2026-01-31T12:00:00Z'"

#: What breaks each CHECK, set on a pending job.
VIOLATIONS = {
    "claimed_at_fixed_width": [f"status = 'running', worker_id = 'w', claimed_at = {LATE}"],
    "created_at_fixed_width": [f"created_at = {LATE}", "created_at = 0"],
    "created_by_length": ["created_by = ''", f"created_by = {LONG}"],
    "due_at_fixed_width": [f"due_at = {LATE}", "due_at = ''"],
    "encoded_size_range": [
        "encoded_size = -1",
        "encoded_size = 1000001",
        "encoded_size = 'many'",
        "encoded_size = 0.5",
    ],
    "error_length": ["error = printf('%*c', 1001, 'x')"],
    "fingerprint_is_sha256": ["fingerprint = ''", "fingerprint = 'abc'"],
    "id_exact_in_json": ["id = 0", "id = -1", "id = 9007199254740992"],
    "idempotency_key_length": ["idempotency_key = ''", f"idempotency_key = {LONG}"],
    "key_has_fingerprint": ["idempotency_key = 'k'"],
    "max_retries_range": ["max_retries = -1", "max_retries = 26", "max_retries = 'many'", "max_retries = 1.5"],
    "payload_size": ["payload = printf('%*c', 65537, 'x')", "payload = printf('%.*c', 32769, 'é')"],
    "pending_is_unheld": ["worker_id = 'w'", "claimed_at = created_at"],
    "priority_known": ["priority = 5", "priority = -10", "priority = 40", "priority = 'high'"],
    "reason_known": ["reason = 'bored'", "reason = ''"],
    "retry_count_range": ["retry_count = -1", "retry_count = 4", "retry_count = 'none'", "retry_count = 0.5"],
    "running_is_held": [
        "status = 'running'",
        "status = 'running', worker_id = 'w'",
        "status = 'running', claimed_at = created_at",
    ],
    "status_known": ["status = 'done'", "status = ''", "status = 'PENDING'"],
    "type_length": ["type = ''", "type = printf('%*c', 101, 'x')"],
    "updated_at_fixed_width": [f"updated_at = {LATE}"],
    "worker_id_length": [
        "status = 'completed', worker_id = ''",
        f"status = 'completed', worker_id = {LONG}",
    ],
}


@pytest.fixture
def network() -> bool:
    return False


@pytest.fixture
def pending(as_producer: BoundQueue) -> int:
    return as_producer.enqueue(NewJob(type="email")).job.id


@pytest.mark.parametrize("constraint", VIOLATIONS)
def test_no_statement_breaks_a_check(pending: int, as_producer: BoundQueue, path: Path, constraint: str) -> None:
    before = as_producer.get(pending)
    for change in VIOLATIONS[constraint]:
        with pytest.raises(sqlite3.IntegrityError, match=f"CHECK constraint failed: {constraint}$"):
            query(path, f"UPDATE jobs SET {change}")
    assert as_producer.get(pending) == before


def test_every_check_has_a_name_and_a_test(pending: int, path: Path) -> None:
    ((schema,),) = query(path, "SELECT sql FROM sqlite_schema WHERE name = 'jobs'")
    assert sorted(re.findall(r"CONSTRAINT (\w+)\s+CHECK", schema)) == sorted(VIOLATIONS)
    assert len(re.findall(r"\bCHECK \(", schema)) == len(VIOLATIONS)


@pytest.mark.parametrize(
    "column",
    [
        "created_at",
        "created_by",
        "due_at",
        "encoded_size",
        "max_retries",
        "payload",
        "priority",
        "retry_count",
        "status",
        "type",
        "updated_at",
    ],
)
def test_what_every_job_has_is_never_null(pending: int, path: Path, column: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=rf"NOT NULL constraint failed: jobs\.{column}"):
        query(path, f"UPDATE jobs SET {column} = NULL")


def test_a_principal_s_key_belongs_to_one_job(pending: int, path: Path) -> None:
    query(path, "UPDATE jobs SET idempotency_key = 'k', fingerprint = printf('%064d', 1)")
    with pytest.raises(
        sqlite3.IntegrityError, match=r"UNIQUE constraint failed: jobs\.created_by, jobs\.idempotency_key"
    ):
        add_jobs(path, 1, idempotency_key="'k'")
    add_jobs(path, 1, idempotency_key="'k'", created_by="'another'")
    add_jobs(path, 3)


def test_the_largest_values_fit(pending: int, path: Path, as_admin: BoundQueue) -> None:
    payload = '{"a":"' + "x" * (65_536 - 8) + '"}'
    query(path, "UPDATE jobs SET id = 9007199254740991, payload = ?, error = ?", [payload, "é" * 1_000])
    longest = f"idempotency_key = substr({LONG}, 2), created_by = substr({LONG}, 2)"
    query(path, f"UPDATE jobs SET {longest}, fingerprint = printf('%064d', 1)")
    job = as_admin.get(2**53 - 1)
    assert (len(job.payload["a"]), job.error) == (65_528, "é" * 1_000)


@pytest.mark.parametrize("priority", JobPriority)
@pytest.mark.parametrize("status", JobStatus)
def test_the_schema_knows_every_status_and_priority(
    pending: int, as_admin: BoundQueue, path: Path, status: JobStatus, priority: JobPriority
) -> None:
    held = None if status is JobStatus.PENDING else "2026-01-31T12:00:00.000Z"
    change = "UPDATE jobs SET status = ?, priority = ?, worker_id = ?, claimed_at = ?"
    query(path, change, [status, priority, held and "w", held])
    job = as_admin.get(pending)
    assert (job.status, job.priority) == (status, priority)


def test_the_schema_knows_every_reason(pending: int, as_admin: BoundQueue, path: Path) -> None:
    for reason in Reason:
        query(path, "UPDATE jobs SET reason = ?", [reason])
        assert as_admin.get(pending).reason is reason


def test_an_id_is_never_used_again(as_producer: BoundQueue, path: Path) -> None:
    for _ in range(3):
        as_producer.enqueue(NewJob(type="email"))
    query(path, "DELETE FROM jobs WHERE id = 3")
    assert as_producer.enqueue(NewJob(type="email")).job.id == 4
    query(path, "DELETE FROM jobs")
    assert as_producer.enqueue(NewJob(type="email")).job.id == 5
    query(path, "VACUUM")
    assert as_producer.enqueue(NewJob(type="email")).job.id == 6


def test_an_id_is_not_used_again_after_the_file_was_closed(as_producer: BoundQueue, path: Path) -> None:
    as_producer.enqueue(NewJob(type="email"))
    as_producer.enqueue(NewJob(type="email"))
    query(path, "DELETE FROM jobs WHERE id = 2")
    as_producer.queue._store.close()
    assert as_producer.enqueue(NewJob(type="email")).job.id == 3


def test_a_replay_uses_up_no_id(as_producer: BoundQueue) -> None:
    for _ in range(3):
        as_producer.enqueue(NewJob(type="email", idempotency_key="k"))
    assert as_producer.enqueue(NewJob(type="email")).job.id == 2


def test_a_job_is_found_by_its_id_and_its_key_and_claimed_by_index(
    pending: int, as_worker: BoundQueue, path: Path
) -> None:
    indexes = query(path, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name")
    assert [name for (name,) in indexes] == [
        "jobs_claim_request",
        "jobs_ended",
        "jobs_idempotency_key",
        "jobs_leased",
        "jobs_pending",
    ]
    ((definition,),) = query(path, "SELECT sql FROM sqlite_schema WHERE name = 'jobs_pending'")
    assert definition.endswith("(type, priority DESC, due_at, id) WHERE status = 'pending'")
    assert claim(as_worker).id == pending


#: What breaks each CHECK of the other tables, as a statement.
ELSEWHERE = {
    "attempt_positive": "INSERT INTO attempts VALUES (1, 0, 'w', '', '', 'failed', 'fail', NULL, NULL)",
    "ended_by_known": "INSERT INTO attempts VALUES (1, 1, 'w', '', '', 'failed', 'claim', NULL, NULL)",
    "jobs_not_negative": "UPDATE counts SET jobs = -1",
    "outcome_known": "INSERT INTO attempts VALUES (1, 1, 'w', '', '', 'pending', 'fail', NULL, NULL)",
    "token_is_sha256": "INSERT INTO attempts VALUES (1, 1, 'w', '', '', 'failed', 'fail', 'abc', NULL)",
}


@pytest.mark.parametrize("constraint", ELSEWHERE)
def test_no_statement_breaks_a_check_of_the_other_tables(pending: int, path: Path, constraint: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=f"CHECK constraint failed: {constraint}$"):
        query(path, ELSEWHERE[constraint])


def test_no_worker_holds_less_than_nothing(pending: int, as_worker: BoundQueue, path: Path) -> None:
    claim(as_worker)
    with pytest.raises(sqlite3.IntegrityError, match=r"CHECK constraint failed: jobs_not_negative$"):
        query(path, "UPDATE holders SET jobs = -1")


def test_every_check_of_the_other_tables_has_a_name_and_a_test(pending: int, path: Path) -> None:
    schema = "".join(
        sql for (sql,) in query(path, "SELECT sql FROM sqlite_schema WHERE name IN ('attempts', 'counts', 'holders')")
    )
    assert set(re.findall(r"CONSTRAINT (\w+)\s+CHECK", schema)) == set(ELSEWHERE)
    assert len(re.findall(r"\bCHECK \(", schema)) == len(re.findall(r"CONSTRAINT", schema))
