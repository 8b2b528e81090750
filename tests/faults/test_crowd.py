"""Fifty connections to one file at one moment."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter, defaultdict
from contextlib import closing
from typing import TYPE_CHECKING

from queuelog import NewJob, Queue, Store
from tests.support import admin, claim, miscounted, query, start_python, unaccounted

if TYPE_CHECKING:
    from pathlib import Path

CROWD = 50


def test_50_sandboxes_that_start_at_once_are_answered_and_nothing_is_lost_or_done_twice(
    network: bool, tmp_path: Path
) -> None:
    path = tmp_path / "queue.db"
    arguments = ["network" if network else "local", str(path), str(CROWD)]
    process = start_python("-m", "tests.faults.crowd", *arguments, stderr=subprocess.PIPE)
    output, errors = process.communicate()
    assert process.returncode == 0, errors

    answers: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for line in output.splitlines():
        number, request, status, id = line.split()
        answers[status].append((int(number), request, int(id)))
    assert set(answers) <= {"200", "201", "503"}
    made = sorted(id for _, request, id in answers["201"] if request == "enqueue")
    assert made == list(range(1, 2 * CROWD + 1))
    counts = Counter(request for _, request, _ in answers["200"])
    assert (counts["claim"], counts["complete"]) == (CROWD, CROWD)
    claimed = {id: number for number, request, id in answers["200"] if request == "claim"}
    assert len(claimed) == CROWD
    assert {id: number for number, request, id in answers["200"] if request == "complete"} == claimed

    copy = tmp_path / "copy.db"
    with closing(Store(path, network=network)) as store:
        store.back_up(copy)
    completed = query(copy, "SELECT id, worker_id FROM jobs WHERE status = 'completed'")
    assert dict(completed) == {id: f"sandbox-{number}" for id, number in claimed.items()}
    assert query(copy, "SELECT status, count(*) FROM jobs GROUP BY 1") == [("completed", CROWD), ("pending", CROWD)]
    assert miscounted(copy) == set()
    assert unaccounted(copy) == []


def test_50_threads_with_a_store_each_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    # On a local disk alone: over a network, a process has one store for a file.
    path = tmp_path / "queue.db"
    start = threading.Barrier(CROWD)
    made: list[int] = []
    claimed: list[int] = []

    def live() -> None:
        # Nobody is refused as busy here: the test above sees to that.
        with closing(Store(path, network=False, busy_timeout=60)) as store:
            caller = Queue(store).bound(admin())
            start.wait()
            made.append(caller.enqueue(NewJob(type="email")).job.id)
            claimed.append(caller.complete(claim(caller).id).id)

    threads = [threading.Thread(target=live) for _ in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted(claimed) == list(range(1, CROWD + 1))
    assert query(path, "SELECT status, count(*) FROM jobs GROUP BY 1") == [("completed", CROWD)]
    assert miscounted(path) == set()
    assert unaccounted(path) == []
