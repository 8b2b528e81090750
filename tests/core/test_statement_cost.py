"""No statement may cost more in a large file than in a small one: a long backlog must not slow a claim down."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from queuelog import Queue, Store
from queuelog.store.store import SQL
from tests.support import add_jobs, admin, query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = "2026-01-31T12:00:00.000Z"
LATER = "2026-02-28T12:00:00.000Z"
TYPES = 40
#: Three in four jobs are of one type, the others of forty; one in ten pending jobs is due later, all critical ones are.
KINDS = {
    "status": "iif(n % 2, 'completed', 'pending')",
    "type": f"iif(n % 8 < 6, 'bulk', 'type-' || (n / 8 % {TYPES - 1}))",
    "priority": "(n / 2 % 4) * 10",
    "due_at": f"iif(n % 20 = 0 OR n / 2 % 4 = 3, '{LATER}', '2026-01-31T11:' || printf('%02d', n % 60) || ':00.000Z')",
    "idempotency_key": "iif(n % 3, NULL, 'key-' || n)",
}


class Call(NamedTuple):
    """A statement's values, and how many of its rows its caller reads; None is all of them."""

    values: dict[str, Any]
    rows: int | None = None


PAGE = 51
POSITION = {"type": "bulk", "priority": 20, "due_at": "2026-01-31T11:30:00.000Z", "id": 300}
WORKER = {"worker_id": "worker", "now": NOW}
CALLS: dict[str, list[Call]] = {
    "claim_job": [
        Call({"types": None, **WORKER}),
        Call({"types": '["type-7"]', **WORKER}),
        Call({"types": '["bulk", "type-7"]', **WORKER}),
        Call({"types": '["no such type"]', **WORKER}),
        Call({"types": "[]", **WORKER}),
    ],
    "complete_job": [Call({"id": 1, **WORKER}), Call({"id": 2, **WORKER}), Call({"id": 0, **WORKER})],
    "fail_job": [Call({"id": id, "error": "boom", **WORKER}) for id in (1, 2, 0)],
    "insert_job": [
        Call(
            {
                "type": "bulk",
                "priority": 10,
                "now": NOW,
                "max_retries": 3,
                "created_by": "producer",
                "idempotency_key": key,
                "fingerprint": "0" * 64,
                "encoded_size": 4,
                "payload": "{}",
            }
        )
        for key in (None, "new")
    ],
    "job_by_id": [Call({"id": 500}), Call({"id": 0})],
    "job_by_idempotency_key": [
        Call({"created_by": "producer", "idempotency_key": "key-300"}),
        Call({"created_by": "producer", "idempotency_key": "unknown"}),
        Call({"created_by": "nobody", "idempotency_key": "key-300"}),
    ],
    "jobs_by_id": [Call({"ids": json.dumps([*range(100, 200)])}), Call({"ids": "[]"})],
    "newest_jobs": [Call({"before": 2**63 - 1}, PAGE), Call({"before": 600}, PAGE)],
    "next_job": [
        Call({"types": None, "now": NOW}),
        Call({"types": None, "now": "2020-01-01T00:00:00.000Z"}),
        Call({"types": '["type-7"]', "now": NOW}),
        Call({"types": '["type-7"]', "now": "2020-01-01T00:00:00.000Z"}),
        Call({"types": '["no such type"]', "now": NOW}),
    ],
    "present_types": [Call({})],
    "queued_jobs_after": [
        Call(POSITION, PAGE),
        Call({**POSITION, "type": "type-7"}, 1),
        Call({**POSITION, "priority": 30, "due_at": "", "id": 0}, PAGE),
        Call({**POSITION, "type": "no such type"}),
    ],
    "queued_jobs_below": [
        Call(POSITION, PAGE),
        Call({**POSITION, "type": "type-7"}, 1),
        Call({**POSITION, "priority": 0}, PAGE),
    ],
}


def build(path: Path, count: int) -> sqlite3.Connection:
    store = Store(path, network=False)
    Queue(store).bound(admin()).list()
    store.close()
    add_jobs(path, count, **KINDS)
    # Job 1 is held, so that completing and failing it does all of their work.
    query(path, "UPDATE jobs SET status = 'running', worker_id = 'worker', claimed_at = created_at WHERE id = 1")
    return sqlite3.connect(path, isolation_level=None)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(build(tmp_path_factory.mktemp("small") / "queue.db", 2_000)) as connection:
        yield connection


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(build(tmp_path_factory.mktemp("large") / "queue.db", 300_000)) as connection:
        yield connection


def steps(connection: sqlite3.Connection, statement: str, call: Call) -> int:
    """Count the instructions of SQLite's virtual machine that a statement takes; a row that is read is several."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.execute("BEGIN")
    with closing(connection.execute("SELECT 1")):
        pass
    connection.set_progress_handler(step, 1)
    with closing(connection.execute(statement, call.values)) as cursor:
        cursor.fetchall() if call.rows is None else cursor.fetchmany(call.rows)
    connection.set_progress_handler(None, 1)
    connection.execute("ROLLBACK")
    return count


def test_no_statement_takes_more_steps_in_a_file_that_is_150_times_as_large(
    small: sqlite3.Connection, large: sqlite3.Connection
) -> None:
    taken = {
        (name, index): (steps(small, SQL[name], call), steps(large, SQL[name], call))
        for name, calls in CALLS.items()
        for index, call in enumerate(calls)
    }
    assert min(few for few, _ in taken.values()) > 0
    grown = {which: (few, many) for which, (few, many) in taken.items() if many > few * 1.25}
    assert grown == {}


def test_every_named_statement_is_measured() -> None:
    assert set(CALLS) == set(SQL)


def test_a_scan_would_be_noticed(small: sqlite3.Connection, large: sqlite3.Connection) -> None:
    scan = "SELECT id FROM jobs WHERE status = 'pending' AND due_at <= :now ORDER BY priority DESC, due_at, id LIMIT 1"
    call = Call({"now": NOW})
    assert steps(large, scan, call) > 50 * steps(small, scan, call)


def test_the_file_is_what_the_rule_speaks_of(large: sqlite3.Connection) -> None:
    def one(statement: str) -> int:
        (value,) = large.execute(statement).fetchone()
        return int(value)

    assert one("SELECT count(*) FROM jobs") == 300_000
    assert one("SELECT count(*) FROM jobs WHERE status = 'pending'") == 150_000
    assert one("SELECT count(DISTINCT type) FROM jobs WHERE status = 'pending'") == TYPES
    assert one("SELECT count(DISTINCT priority) FROM jobs WHERE status = 'pending'") == 4
    assert one("SELECT count(*) FROM jobs WHERE type = 'bulk'") > 200_000
    assert one(f"SELECT count(*) FROM jobs WHERE priority = 30 AND due_at <= '{NOW}' AND status = 'pending'") == 0
