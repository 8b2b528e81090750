"""No statement may cost more in a large file than in a small one: a long backlog must not slow a claim down."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from queuelog import JobPriority
from queuelog.store import migrations
from queuelog.store.items import NewRow
from queuelog.store.store import SQL
from tests.support import add_jobs, directory_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = "2026-01-31T12:00:00.000Z"
LATER = "2026-02-28T12:00:00.000Z"
LONG_AGO = "2020-01-01T00:00:00.000Z"
TYPES = 40
#: Three in four jobs are of one type, the others of forty; one in ten pending jobs is due later, all critical ones are.
#: One job in eight runs, a third of these without a lease, as the first release claims; no lease has ended yet.
KINDS = {
    "status": "CASE WHEN n % 2 = 0 THEN 'pending' WHEN n % 16 IN (3, 15) THEN 'running' "
    "WHEN n % 16 = 11 THEN 'failed' WHEN n % 16 = 13 THEN 'cancelled' ELSE 'completed' END",
    "type": f"iif(n % 8 < 6, 'bulk', 'type-' || (n / 8 % {TYPES - 1}))",
    "priority": "(n / 2 % 4) * 10",
    "due_at": f"iif(n % 20 = 0 OR n / 2 % 4 = 3, '{LATER}', '2026-01-31T11:' || printf('%02d', n % 60) || ':00.000Z')",
    "idempotency_key": "iif(n % 3, NULL, 'key-' || n)",
    "updated_at": "'2026-01-31T11:' || printf('%02d', n / 16 % 60) || ':00.000Z'",
    "worker_id": "iif(n % 2, 'worker-' || (n / 16 % 5), NULL)",
    "claimed_at": "iif(n % 2, '2026-01-31T11:59:30.000Z', NULL)",
}
#: What a job has from version 1.1 on.
LEASES = (
    "UPDATE jobs SET attempt = id % 2, error = iif(status = 'failed', 'boom ' || id, NULL)",
    "UPDATE jobs SET lease_expires_at = '2026-01-31T12:30:00.000Z' WHERE status = 'running' AND id / 16 % 3",
    "UPDATE jobs SET lease_seconds = 60, lease_token_sha256 = printf('%064d', id) WHERE lease_expires_at IS NOT NULL",
    "UPDATE jobs SET claim_request_id = 'request-' || id WHERE lease_expires_at IS NOT NULL",
)
HISTORY = (
    "INSERT INTO attempts SELECT id, 1, worker_id, claimed_at, updated_at, 'failed', 'fail', printf('%064d', id), NULL "
    "FROM jobs WHERE status IN ('completed', 'failed', 'cancelled')"
)


class Call(NamedTuple):
    """A statement's values, and how many of its rows its caller reads; None is all of them."""

    values: dict[str, Any]
    rows: int | None = None


def sha256(id: int) -> str:
    return f"{id:064}"


PAGE = 51
POSITION = {"type": "bulk", "priority": 20, "due_at": "2026-01-31T11:30:00.000Z", "id": 300}
WORKER = {"worker_id": "worker-1", "now": NOW}
CLAIM = {
    **WORKER,
    "token": "token",
    "token_sha256": sha256(0),
    "lease_seconds": 60,
    "claim_request_id": "new",
    "claim_fingerprint": sha256(0),
}
BACKOFF = {"backoff_seconds": 15, "backoff_cap": 3_600, "unleased_since": "2026-01-31T11:59:00.000Z"}
#: Ids of the first 2,000, which every file has: n / 16 % 5 is 1, so that worker-1 holds those that run.
HELD = [16 * block + 3 for block in range(1, 100, 5) if block % 3]
ENDED = [16 * block + 11 for block in range(1, 100, 5)]
WAITING = list(range(2, 202, 2))


def items(ids: list[int], **more: Any) -> str:
    return json.dumps([{"id": id, "token_sha256": sha256(id), **more} for id in ids])


def new_jobs(count: int, key: str | None) -> str:
    new = NewRow(
        type="bulk",
        payload="{}",
        encoded_size=4,
        priority=JobPriority.MEDIUM,
        max_retries=3,
        backoff_seconds=15,
        due_at=NOW,
        idempotency_key=None,
        fingerprint=sha256(0),
    )
    keys = [None if key is None else f"{key}-{n}" for n in range(count)]
    return json.dumps([new._replace(idempotency_key=each) for each in keys])


CALLS: dict[str, list[Call]] = {
    "attempts_by_token": [
        Call({**WORKER, "items": items(ENDED)}),
        Call({**WORKER, "items": items([*HELD, 0, 10**9])}),
        Call({**WORKER, "worker_id": "nobody", "items": items(ENDED)}),
    ],
    "attempts_of_job": [Call({"id": id, "most": 500}) for id in (11, 2, 0)],
    "cancel_job": [Call({"id": id, "created_by": by, "now": NOW}) for id in (2, 3, 11, 0) for by in (None, "producer")],
    "claim_job": [
        Call({"types": None, **CLAIM}),
        Call({"types": '["type-7"]', **CLAIM}),
        Call({"types": '["bulk", "type-7"]', **CLAIM}),
        Call({"types": '["no such type"]', **CLAIM}),
        Call({"types": "[]", **CLAIM}),
    ],
    "claim_jobs": [
        Call({**CLAIM, "items": json.dumps([(id, "t", sha256(id)) for id in ids])}) for ids in (WAITING, [3])
    ],
    "claimed_by_request": [
        Call({**WORKER, "claim_request_id": "request-19"}),
        Call({**WORKER, "claim_request_id": "unknown"}),
        Call({**WORKER, "claim_request_id": None}),
    ],
    "counts": [Call({})],
    "delete_jobs": [Call({"ids": json.dumps(ENDED)}), Call({"ids": json.dumps(WAITING)})],
    "due_jobs": [
        Call({"type": "bulk", "priority": 20, "now": NOW}, PAGE),
        Call({"type": "type-7", "priority": 0, "now": NOW}, 1),
        Call({"type": "bulk", "priority": 30, "now": NOW}),
        Call({"type": "no such type", "priority": 20, "now": NOW}),
    ],
    "end_attempts": [
        Call({**WORKER, **BACKOFF, "items": items(HELD, verb="complete", result={"a": 1})}),
        Call({**WORKER, **BACKOFF, "items": items(HELD, verb="fail", error="boom")}),
        Call({**WORKER, **BACKOFF, "items": items(HELD, verb="release")}),
        Call({**WORKER, **BACKOFF, "now": LATER, "items": items(HELD, verb="expire")}),
        Call({**WORKER, **BACKOFF, "items": items([*WAITING, 0, 10**9], verb="complete")}),
    ],
    "ended_jobs": [
        Call({"status": status, "before": before, "most": 50})
        for status in ("completed", "failed", "cancelled", "pending")
        for before in (LATER, LONG_AGO)
    ],
    "expired_jobs": [
        Call({"types": types, "now": now, "unleased_since": since, "most": most})
        for types in (None, '["type-7", "bulk"]', '["no such type"]', "[]")
        for now, since in ((NOW, "2026-01-31T11:59:00.000Z"), (LATER, LATER))
        for most in (1, 10)
    ],
    "fronts": [Call({"now": NOW}), Call({"now": LONG_AGO}), Call({"now": LATER})],
    "heartbeat_jobs": [
        Call({**WORKER, "items": items(HELD, lease_seconds=7_200, progress={"a": 1})}),
        Call({**WORKER, "items": items([*WAITING, 0])}),
    ],
    "holders": [Call({})],
    "insert_jobs": [
        Call({"created_by": "producer", "now": NOW, "items": new_jobs(count, key)})
        for count in (1, 100)
        for key in (None, "new")
    ],
    "job_by_id": [Call({"id": 500}), Call({"id": 0})],
    "jobs_by_id": [Call({"ids": json.dumps([*range(100, 200)])}), Call({"ids": "[]"})],
    "jobs_by_idempotency_key": [
        Call({"created_by": "producer", "keys": '["key-300"]'}),
        Call({"created_by": "producer", "keys": json.dumps([f"key-{n}" for n in range(100)])}),
        Call({"created_by": "producer", "keys": '["unknown"]'}),
        Call({"created_by": "nobody", "keys": '["key-300"]'}),
    ],
    "jobs_in_front": [
        Call({**POSITION, "now": NOW, "most": 50}),
        Call({**POSITION, "priority": 0, "id": 2**53, "now": NOW, "most": 50}),
        Call({**POSITION, "type": "no such type", "now": NOW, "most": 50}),
    ],
    "last_claim": [Call({"type": "bulk"}), Call({"type": "no such type"})],
    "newest_jobs": [Call({"before": 2**63 - 1}, PAGE), Call({"before": 600}, PAGE)],
    "next_change": [
        Call({"types": types, "leased_types": types, "now": now})
        for types in (None, '["type-7", "bulk"]', "[]")
        for now in (NOW, LONG_AGO, LATER)
    ],
    "next_job": [
        Call({"types": None, "now": NOW}),
        Call({"types": None, "now": LONG_AGO}),
        Call({"types": '["type-7"]', "now": NOW}),
        Call({"types": '["type-7"]', "now": LONG_AGO}),
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
    "retry_jobs": [Call({"ids": json.dumps(ids), "now": NOW}) for ids in (ENDED, WAITING)],
    "retryable_jobs": [
        Call({"status": "failed", "type": None, "error_contains": None, "after": None, "before": None, "most": 50}),
        Call({"status": "failed", "type": None, "error_contains": "boom", "after": None, "before": None, "most": 50}),
        Call({"status": "failed", "type": None, "error_contains": None, "after": LATER, "before": None, "most": 50}),
        Call({"status": "pending", "type": None, "error_contains": None, "after": None, "before": None, "most": 50}),
        # Not measured: a type or a text that few have. An admin's search reads every job of that status.
    ],
    "running_types": [Call({})],
}
#: Part of other statements, and none by itself.
FRAGMENTS = {"lease_given", "wanted_types"}
#: These need an index or a table that the sweep makes after an upgrade; until then the store does not run them.
NEED_COUNTS = {
    "claimed_by_request",
    "counts",
    "ended_jobs",
    "expired_jobs",
    "holders",
    "last_claim",
    "retryable_jobs",
    "running_types",
}
SMALL, LARGE = 2_000, 200_000


def apply(connection: sqlite3.Connection, minor: int) -> None:
    (wanted,) = [each for each in migrations.load() if each.version == (1, minor)]
    migrations.apply(connection, [wanted])


@contextmanager
def file(count: int) -> Iterator[Path]:
    """Make a file of the first release with so many jobs."""
    with directory_in_memory() as folder:
        path = Path(folder) / "queue.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            apply(connection, 0)
        add_jobs(path, count, **KINDS)
        yield path


@contextmanager
def upgraded(count: int, minor: int) -> Iterator[sqlite3.Connection]:
    with file(count) as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in range(1, minor + 1):
            apply(connection, each)
            if each == 1:
                for statement in (*LEASES, HISTORY):
                    connection.execute(statement)
        yield connection


@pytest.fixture(scope="module")
def small() -> Iterator[sqlite3.Connection]:
    with upgraded(SMALL, 2) as connection:
        yield connection


@pytest.fixture(scope="module")
def large() -> Iterator[sqlite3.Connection]:
    with upgraded(LARGE, 2) as connection:
        yield connection


def steps(connection: sqlite3.Connection, statement: str, call: Call, *, keep: bool = False) -> int:
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
    connection.execute("COMMIT" if keep else "ROLLBACK")
    return count


def grown(
    few: sqlite3.Connection, many: sqlite3.Connection, calls: dict[str, list[Call]]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the calls that take more steps in the file with more jobs."""
    taken = {
        (name, index): (steps(few, SQL[name], call), steps(many, SQL[name], call))
        for name, each in calls.items()
        for index, call in enumerate(each)
    }
    assert min(count for count, _ in taken.values()) > 0
    return {which: (before, after) for which, (before, after) in taken.items() if after > before * 1.25}


def test_no_statement_takes_more_steps_in_a_file_that_is_100_times_as_large(
    small: sqlite3.Connection, large: sqlite3.Connection
) -> None:
    assert grown(small, large, CALLS) == {}


def test_every_named_statement_is_measured() -> None:
    assert set(CALLS) == set(SQL) - FRAGMENTS


def test_until_the_sweep_has_ended_an_upgrade_no_statement_takes_more_steps_either() -> None:
    calls = {name: each for name, each in CALLS.items() if name not in NEED_COUNTS}
    calls["next_change"] = [Call({**call.values, "leased_types": "[]"}) for call in calls["next_change"]]
    with upgraded(SMALL, 1) as few, upgraded(LARGE // 4, 1) as many:
        assert grown(few, many, calls) == {}


def test_what_a_request_adds_to_a_file_of_the_first_release_takes_the_same_steps_however_large_it_is() -> None:
    (script,) = [each.script for each in migrations.load() if each.version == (1, 1)]
    statements = list(migrations._statements(script))
    taken = []
    for count in (SMALL, LARGE // 4):
        with file(count) as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
            before = connection.total_changes
            taken.append([steps(connection, each, Call({}), keep=True) for each in statements])
            assert connection.total_changes - before < 100
    few, many = map(sum, taken)
    assert few > 100
    assert many <= few * 1.25


def test_the_sweep_s_part_of_an_upgrade_would_be_noticed() -> None:
    (script,) = [each.script for each in migrations.load() if each.version == (1, 2)]
    with upgraded(SMALL, 1) as connection:
        assert sum(steps(connection, each, Call({}), keep=True) for each in migrations._statements(script)) > SMALL


def test_delayed_jobs_in_front_of_it_cost_a_claim_nothing() -> None:
    claims = {name: CALLS[name] for name in ("claim_job", "claim_jobs", "next_job", "next_change")}
    claims["due_jobs"] = [Call({"type": "email", "priority": 10, "now": NOW}, 100)]
    with upgraded(0, 2) as without, upgraded(0, 2) as delayed:
        for connection in (without, delayed):
            ((_, _, path),) = connection.execute("PRAGMA database_list")
            add_jobs(Path(path), 1_000)
        add_jobs(Path(path), 50_000, due_at=f"'{LATER}'", priority="30")
        add_jobs(Path(path), 50_000, due_at=f"'{LATER}'")
        assert grown(without, delayed, claims) == {}


def test_a_scan_would_be_noticed(small: sqlite3.Connection, large: sqlite3.Connection) -> None:
    scan = "SELECT id FROM jobs WHERE status = 'pending' AND due_at <= :now ORDER BY priority DESC, due_at, id LIMIT 1"
    call = Call({"now": NOW})
    assert steps(large, scan, call) > 50 * steps(small, scan, call)


def test_the_file_is_what_the_rule_speaks_of(large: sqlite3.Connection) -> None:
    def one(statement: str) -> int:
        (value,) = large.execute(statement).fetchone()
        return int(value)

    assert one("SELECT count(*) FROM jobs") == LARGE
    assert one("SELECT count(*) FROM jobs WHERE status = 'pending'") == LARGE / 2
    assert one("SELECT count(*) FROM jobs WHERE status = 'running'") == LARGE / 8
    assert one("SELECT count(*) FROM jobs WHERE lease_expires_at > claimed_at") > LARGE / 16
    assert one("SELECT count(*) FROM attempts") > LARGE / 4
    for status in ("pending", "running"):
        assert one(f"SELECT count(DISTINCT type) FROM jobs WHERE status = '{status}'") == TYPES
    assert one("SELECT count(DISTINCT priority) FROM jobs WHERE status = 'pending'") == 4
    assert one("SELECT count(*) FROM jobs WHERE type = 'bulk'") > LARGE / 2
    assert one(f"SELECT count(*) FROM jobs WHERE priority = 30 AND due_at <= '{NOW}' AND status = 'pending'") == 0


def test_the_calls_do_what_they_are_measured_for(small: sqlite3.Connection) -> None:
    def changed(name: str, index: int = 0) -> int:
        small.execute("BEGIN")
        rows = small.execute(SQL[name], CALLS[name][index].values).fetchall()
        small.execute("ROLLBACK")
        return len(rows)

    assert changed("claim_jobs") == len(WAITING)
    assert [changed("end_attempts", index) for index in range(5)] == [len(HELD)] * 4 + [0]
    assert changed("heartbeat_jobs") == len(HELD)
    assert changed("retry_jobs") == len(ENDED)
    assert changed("attempts_by_token") == len(ENDED)
    assert changed("claimed_by_request") == 1
    assert changed("expired_jobs", 0) == 0
    assert changed("expired_jobs", 3) == 10
