"""Six workers and two producers, the workers killed all the time: nothing is lost, and nothing is done twice.

CHAOS_SECONDS says for how long (8); `-s` shows what happened.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queuelog import JobStatus, Queue, Store
from tests.support import admin, directory_in_memory, miscounted, query, start_python, unaccounted

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = float(os.environ.get("CHAOS_SECONDS", "8"))
PLAYERS = [*(("work", f"w{number}") for number in range(6)), *(("produce", f"p{number}") for number in range(2))]
#: How an attempt ends that was acknowledged with this word.
OUTCOMES = {"complete": "completed", "fail": "failed", "release": "released", "lost": "lease_expired"}


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def path(network: bool) -> Iterator[Path]:
    """The queue after it was all over."""
    with directory_in_memory() as folder:
        path = Path(folder) / "queue.db"
        store = Store(path, network=network)
        Queue(store).bound(admin()).list()
        store.close()
        mode = "network" if network else "local"
        players = [
            start_python("-m", "tests.race.chaos", action, mode, str(path), name, str(SECONDS))
            for action, name in PLAYERS
        ]
        try:
            for player in players:
                player.communicate(timeout=SECONDS + 120)
            assert [player.returncode for player in players] == [0] * len(players)
        finally:
            for player in players:
                player.kill()
                player.communicate()
        yield path


def notes(path: Path, pattern: str) -> list[list[str]]:
    return [line.split() for diary in path.parent.glob(pattern) for line in diary.read_text().splitlines()]


def test_every_job_ends_once_whoever_is_killed(path: Path, network: bool) -> None:
    jobs = {
        id: (status, attempt, retries, expiries, most)
        for id, status, attempt, retries, expiries, most in query(
            path, "SELECT id, status, attempt, retry_count, lease_expiries, max_retries FROM jobs"
        )
    }
    history: dict[int, list[str]] = defaultdict(list)
    for id, outcome in query(path, "SELECT job_id, outcome FROM attempts ORDER BY job_id, attempt"):
        history[id].append(outcome)
    told = Counter((word, int(id), int(attempt)) for word, id, attempt in notes(path, "w[0-9]"))
    made = notes(path, "p[0-9]")
    kills = Counter(word for (word,) in notes(path, "w[0-9]-kills"))
    words = Counter(word for word, _, _ in told.elements())
    outcomes = Counter(outcome for each in history.values() for outcome in each)
    print(f"\n{'network' if network else 'local'}, {SECONDS:g} s: {len(jobs)} jobs, {kills['killed']} kills")
    print(f"attempts {dict(outcomes)}, acknowledged {dict(words)}")

    # Every job that a producer was told of is there, and no other.
    assert sorted(int(id) for word, id in made if word == "made") == sorted(jobs)
    assert {int(id) for word, id in made if word == "replayed"} <= set(jobs)
    # Each has ended, and its history says how.
    assert {status for status, *_ in jobs.values()} == {JobStatus.COMPLETED, JobStatus.FAILED}
    for id, (status, attempt, retries, expiries, most) in jobs.items():
        counts = Counter(history[id])
        assert len(history[id]) == attempt
        assert counts["completed"] == (status == JobStatus.COMPLETED)
        assert history[id][-1] == "completed" if status == JobStatus.COMPLETED else counts["failed"] or expiries
        assert counts["lease_expired"] == expiries
        assert counts["failed"] + counts["lease_expired"] == retries + (status == JobStatus.FAILED)
        assert retries <= most
    # No attempt was given to two, and none has ended twice or otherwise than its worker was told.
    claims = Counter({(id, attempt): count for (word, id, attempt), count in told.items() if word == "claimed"})
    assert set(claims.values()) == {1}
    for (word, id, attempt), count in told.items():
        if word in OUTCOMES:
            assert history[id][attempt - 1] == OUTCOMES[word]
            assert count == 1 or word == "lost"
            assert claims[id, attempt] == 1
    assert miscounted(path) == set()
    assert unaccounted(path) == []
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    # It has been a chaos.
    assert set(kills) == {"killed"}
    assert kills["killed"] > 2 * SECONDS
    assert min(outcomes[each] for each in ("completed", "failed", "lease_expired", "released")) > 0
    assert words["lost"] > 0
