"""What is left when the chaos is over, and what must be true of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from queuelog import JobStatus
from tests.support import miscounted, query, unaccounted

if TYPE_CHECKING:
    from pathlib import Path

#: How an attempt ends that was acknowledged with this word.
OUTCOMES = {"complete": "completed", "fail": "failed", "release": "released", "lost": "lease_expired"}


def read_aftermath(path: Path, diaries: Path) -> dict[str, Any]:
    """Return, as JSON has it, what a file that nobody uses any more holds, and what the players were told."""
    return {
        "jobs": query(path, "SELECT id, status, attempt, retry_count, lease_expiries, max_retries FROM jobs"),
        "attempts": query(path, "SELECT job_id, outcome FROM attempts ORDER BY job_id, attempt"),
        "miscounted": sorted(miscounted(path)),
        "unaccounted": unaccounted(path),
        "integrity": query(path, "PRAGMA integrity_check"),
        "told": notes(diaries, "w[0-9]"),
        "made": notes(diaries, "p[0-9]"),
        "kills": notes(diaries, "w[0-9]-kills"),
    }


def notes(diaries: Path, pattern: str) -> list[list[str]]:
    return [line.split() for diary in diaries.glob(pattern) for line in diary.read_text().splitlines()]


def assert_that_every_job_ended_once(found: dict[str, Any], *, kills_expected: float, lost_expected: int = 0) -> str:
    """Check it all; return a summary for the reader of the test's output.

    lost_expected: how many attempts have at least been told that their lease is lost. Most whose lease ends are dead.
    """
    jobs = {id: values for id, *values in found["jobs"]}
    history: dict[int, list[str]] = defaultdict(list)
    for id, outcome in found["attempts"]:
        history[id].append(outcome)
    told = Counter((word, int(id), int(attempt)) for word, id, attempt in found["told"])
    made = found["made"]
    kills = Counter(word for (word,) in found["kills"])
    words = Counter(word for word, _, _ in told.elements())
    outcomes = Counter(outcome for each in history.values() for outcome in each)

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
    assert found["miscounted"] == []
    assert found["unaccounted"] == []
    assert [*map(tuple, found["integrity"])] == [("ok",)]
    # It has been a chaos.
    assert set(kills) == {"killed"}
    assert kills["killed"] > kills_expected
    assert min(outcomes[each] for each in ("completed", "failed", "lease_expired", "released")) > 0
    assert words["lost"] >= lost_expected
    return f"{len(jobs)} jobs, {kills['killed']} kills, attempts {dict(outcomes)}, acknowledged {dict(words)}"
