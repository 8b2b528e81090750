"""What holds when several processes use one file at once, on either kind of file system."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queuelog import JobStatus, NewJob, Queue, Store
from tests.race.racers import PROCESSES, callers
from tests.support import add_jobs, admin, directory_in_memory, miscounted, query, unaccounted

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = 80


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def path(network: bool) -> Iterator[Path]:
    with directory_in_memory() as folder:
        path = Path(folder) / "queue.db"
        open_and_close(path, network)
        yield path


def open_and_close(path: Path, network: bool) -> None:
    store = Store(path, network=network)
    Queue(store).bound(admin()).list()
    store.close()


def is_sound(path: Path) -> bool:
    return query(path, "PRAGMA integrity_check") == [("ok",)]


def test_8_processes_claim_2_000_jobs_each_exactly_once(path: Path, network: bool) -> None:
    add_jobs(path, 2_000, priority="(n % 4) * 10", type="'type-' || (n % 3)")
    claimed: dict[str, list[int]] = {}
    with callers("claim_all", network) as racing:
        for caller in racing:
            caller.tell(path, "-")
        for number, caller in enumerate(racing):
            claimed[f"process-{number}"] = [int(line) for line in iter(caller.line, "empty")]
    assert sorted(id for ids in claimed.values() for id in ids) == list(range(1, 2_001))
    held = query(path, "SELECT id, worker_id FROM jobs WHERE status = 'running'")
    assert sorted(held) == sorted((id, name) for name, ids in claimed.items() for id in ids)
    assert is_sound(path)


def test_8_processes_take_back_200_expired_leases_each_exactly_once(path: Path, network: bool) -> None:
    long_ago = "'2020-01-31T12:00:00.000Z'"
    dead = {"status": "'running'", "worker_id": "'dead'", "claimed_at": long_ago, "lease_expires_at": long_ago}
    add_jobs(path, 200, **dead, attempt="1", max_retries="n % 2", type="'type-' || (n % 3)")
    claimed: list[int] = []
    with callers("claim_all", network) as racing:
        for caller in racing:
            caller.tell(path, "-")
        for caller in racing:
            claimed += [int(line) for line in iter(caller.line, "empty")]
    assert sorted(claimed) == list(range(1, 201, 2))
    found = query(path, "SELECT status, retry_count, lease_expiries, attempt, count(*) FROM jobs GROUP BY 1, 2, 3, 4")
    assert found == [("failed", 0, 1, 1, 100), ("running", 1, 1, 2, 100)]
    assert query(path, "SELECT outcome, attempt, count(*) FROM attempts GROUP BY 1, 2") == [("lease_expired", 1, 200)]
    assert miscounted(path) == set()
    assert is_sound(path)


def test_8_processes_on_one_key_repeat_one_claim_and_get_the_same_jobs(path: Path, network: bool) -> None:
    add_jobs(path, 60)
    with callers("claim_once", network, name="one-key") as racing:
        for number in range(20):
            for caller in racing:
                caller.tell(path, f"request-{number}")
            answers = {caller.line() for caller in racing}
            assert len(answers) == 1
            held = [each.split("/") for each in answers.pop().split()]
            assert [(int(id), attempt) for id, attempt, _ in held] == [(3 * number + each, "1") for each in (1, 2, 3)]
            assert len({token for _, _, token in held}) == 3
    assert query(path, "SELECT status, attempt, count(*) FROM jobs GROUP BY 1, 2") == [("running", 1, 60)]


def test_a_backup_that_is_taken_while_4_processes_write_is_a_consistent_queue(path: Path, network: bool) -> None:
    store = Store(path, network=network)
    copies = [path.with_name(f"copy-{number}.db") for number in range(5)]
    with callers("die_and_live", network, processes=4) as racing:
        for number, caller in enumerate(racing):
            caller.tell(path, str(path.with_name(f"answers-{number}")))
        for copy in copies:
            time.sleep(0.2)
            store.back_up(copy)
    store.close()
    sizes = []
    for copy in copies:
        assert is_sound(copy)
        assert miscounted(copy) == set()
        assert unaccounted(copy) == []
        restored = Store(copy, network=network)
        everybody = Queue(restored).bound(admin())
        sizes.append(sum(count for *_, count in everybody.stats().jobs))
        assert everybody.enqueue(NewJob(type="email")).job.id > sizes[-1]
        restored.close()
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_8_processes_enqueue_with_one_key_and_there_is_one_job(path: Path, network: bool) -> None:
    with callers("enqueue_once", network) as racing:
        for number in range(1, 21):
            for caller in racing:
                caller.tell(path, f"key-{number}")
            answers = [caller.line().split() for caller in racing]
            assert [id for id, _ in answers] == [str(number)] * PROCESSES
            assert sorted(replayed for _, replayed in answers) == ["False"] + ["True"] * (PROCESSES - 1)
    assert query(path, "SELECT count(*), count(DISTINCT idempotency_key) FROM jobs") == [(20, 20)]


def test_8_processes_open_a_file_that_is_not_there(tmp_path: Path, network: bool) -> None:
    with callers("enqueue", network) as racing:
        for number in range(10):
            path = tmp_path / f"{number}.db"
            for caller in racing:
                caller.tell(path, "-")
            assert sorted(int(caller.line()) for caller in racing) == list(range(1, PROCESSES + 1))
            assert is_sound(path)
    assert query(path, "PRAGMA user_version") == [(1_002,)]


def test_what_was_acknowledged_outlives_killed_writers(path: Path, network: bool) -> None:
    dice = random.Random(20)
    with callers("die_and_live", network, processes=4) as racing:
        for number, caller in enumerate(racing):
            caller.tell(path, str(path.with_name(f"answers-{number}")))
        for _ in range(KILLS):
            time.sleep(dice.uniform(0, 0.05))
            number = dice.randrange(len(racing))
            racing[number].tell(path, str(path.with_name(f"answers-{number}")))
    told = [line for log in path.parent.glob("answers-*") for line in log.read_text().splitlines()]

    # The next opener puts right what a writer had half done.
    open_and_close(path, network)
    assert is_sound(path)
    acknowledged = Counter(tuple(line.split()) for line in told)
    jobs = {id: (status, retries) for id, status, retries in query(path, "SELECT id, status, retry_count FROM jobs")}
    counts: dict[str, Counter[int]] = {word: Counter() for word in ("made", "claimed", "completed", "failed")}
    for (word, id), count in acknowledged.items():
        counts[word][int(id)] += count
    assert min(counts[word].total() for word in counts) > 0
    assert miscounted(path) == set()
    assert unaccounted(path) == []
    assert set(counts["made"].values()) == {1}
    assert set(counts["made"]) <= set(jobs)
    for id, (status, retries) in jobs.items():
        # A claim or a failure that was carried out but not yet acknowledged makes these less than equal.
        assert counts["claimed"][id] <= retries + 1
        assert counts["failed"][id] <= retries
        assert counts["completed"][id] <= (status == JobStatus.COMPLETED)
