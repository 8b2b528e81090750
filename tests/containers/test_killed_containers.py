"""Containers that are killed while they work: no job is lost, none finishes twice, and the next request is answered."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.containers.support import until
from tests.support import miscounted, query, unaccounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.containers.support import Answer, Api

WORKERS = 3
KILLS_OF_EACH = 6
VICTIMS = ["EnqueueJobFunction", "ClaimJobFunction", "CompleteJobFunction"]


#: No lease ends while these tests run.
PDF = {"types": ["pdf"], "lease_seconds": 3_600}


def enqueue(api: Api) -> int:
    return int(api.post("/jobs", "producer", {"type": "pdf"})["id"])


def claim(api: Api) -> Any:
    return api.post("/jobs/claim", "worker", PDF)


def alive(api: Api, function: str) -> list[Any]:
    return [each for each in api.containers(function) if each.status == "running"]


def invocations(container: Any) -> int:
    """Return how many events a container's runtime has been given."""
    return int(container.logs().count(b"START RequestId"))


@contextmanager
def held(database: Path) -> Iterator[None]:
    """Keep the file's lock, so that whoever wants to write waits."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def kill_in_mid_request(api: Api, function: str, path: str, body: object) -> Answer:
    """Kill a function's container when it has a request that it can't answer yet; return what the caller gets."""
    (container,) = alive(api, function)
    before = invocations(container)
    with ThreadPoolExecutor(1) as pool, held(api.data / "queue.db"):
        request = pool.submit(api.ask, "POST", path, "worker", body)
        until(lambda: invocations(container) > before, "the request")
        container.kill()
        return request.result()


def test_a_claim_that_is_killed_takes_no_job_and_the_next_one_gets_it(api: Api) -> None:
    first, second = enqueue(api), enqueue(api)
    assert claim(api)["id"] == first
    assert kill_in_mid_request(api, "ClaimJobFunction", "/jobs/claim", PDF).status == 502
    job = api.get(f"/jobs/{second}", "admin")
    assert (job["status"], job["attempt"]) == ("pending", 0)
    assert claim(api)["id"] == second
    assert query(api.data / "queue.db", "PRAGMA integrity_check") == [("ok",)]


def test_a_complete_that_is_killed_can_be_repeated_and_counts_once(api: Api) -> None:
    enqueue(api)
    enqueue(api)
    warm, job = claim(api), claim(api)
    api.post(f"/jobs/{warm['id']}/complete", "worker", {"lease_token": warm["lease_token"]})
    path, body = f"/jobs/{job['id']}/complete", {"lease_token": job["lease_token"]}
    assert kill_in_mid_request(api, "CompleteJobFunction", path, body).status == 502
    assert api.get(f"/jobs/{job['id']}", "admin")["status"] == "running"
    for _ in range(2):
        assert api.post(path, "worker", body)["status"] == "completed"
    assert [each["outcome"] for each in api.get(f"/jobs/{job['id']}", "admin")["attempts"]] == ["completed"]


class Crowd:
    """Callers that repeat what got no answer, as the README tells them to, and a killer, until its work is done."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.enqueued: list[int] = []
        self.completed: list[int] = []
        self.unanswered: list[int] = []
        self.killing_is_over = threading.Event()
        self.enqueuing_is_over = threading.Event()
        self.has_failed = threading.Event()

    def run(self) -> None:
        """Let all of them do what they do; raise what any of them raises."""
        with ThreadPoolExecutor(WORKERS + 2) as pool:
            parts = [self.kill, self.produce, *([self.work] * WORKERS)]
            playing = [pool.submit(self._play, part, number) for number, part in enumerate(parts)]
            # The first that fails is the one to hear of: the others stop because of it.
            for part in as_completed(playing):
                part.result()

    def _play(self, part: Callable[[int], None], number: int) -> None:
        try:
            part(number)
        except BaseException:
            self.has_failed.set()
            raise

    def insist(self, path: str, key: str, body: object, headers: dict[str, str] | None = None) -> Answer:
        while (answer := self.api.ask("POST", path, key, body, headers)).status >= 500:
            assert not self.has_failed.is_set()
            self.unanswered.append(answer.status)
        return answer

    def kill(self, _: int) -> None:
        chance = random.Random(7)
        for function in VICTIMS * KILLS_OF_EACH:
            # At any moment of the requests that are under way.
            time.sleep(chance.uniform(0.2, 0.8))
            assert not self.has_failed.is_set()
            (victim,) = until(partial(alive, self.api, function), function)
            victim.kill()
        self.killing_is_over.set()

    def produce(self, _: int) -> None:
        while not self.killing_is_over.is_set():
            assert not self.has_failed.is_set()
            if len(self.enqueued) - len(self.completed) > 2 * WORKERS:
                time.sleep(0.02)
                continue
            sent = {"type": "sync", "idempotency_key": f"crowd-{len(self.enqueued)}"}
            self.enqueued.append(self.insist("/jobs", "producer", sent).body["id"])
        self.enqueuing_is_over.set()

    def work(self, number: int) -> None:
        claims = 0
        while not (self.enqueuing_is_over.is_set() and len(self.completed) == len(self.enqueued)):
            assert not self.has_failed.is_set()
            claims += 1
            once = {"Claim-Request-Id": f"worker-{number}-{claims}"}
            claimed = self.insist("/jobs/claim", "worker", {"types": ["sync"]}, once)
            if claimed.status == 204:
                continue
            job = claimed.body
            done = self.insist(f"/jobs/{job['id']}/complete", "worker", {"lease_token": job["lease_token"]})
            assert (done.status, done.body["status"]) == (200, "completed")
            self.completed.append(job["id"])


def test_whoever_is_killed_every_job_is_completed_once(api: Api, report: list[str]) -> None:
    for path in ("/jobs", "/jobs/claim", "/jobs/1/complete"):
        # So that each has a container when the killing begins.
        api.ask("POST", path, "admin", {})
    crowd = Crowd(api)
    crowd.run()
    report.append(
        f"{KILLS_OF_EACH * len(VICTIMS)} containers were killed while {len(crowd.enqueued)} jobs went through, and "
        f"{len(crowd.unanswered)} requests got no answer. Each job was completed once, at its first attempt."
    )
    database = api.data / "queue.db"
    ids = [id for (id,) in query(database, "SELECT id FROM jobs WHERE idempotency_key LIKE 'crowd-%'")]
    # Nothing was enqueued twice or lost, and no worker was told of a job that another was told of, too.
    assert sorted(ids) == sorted(crowd.enqueued) == sorted(crowd.completed)
    # A claim whose answer was lost was asked for again and got the same job, so that none needed a second attempt.
    attempts = query(
        database,
        "SELECT outcome, jobs.attempt, count(*) FROM attempts JOIN jobs ON id = job_id "
        "WHERE idempotency_key LIKE 'crowd-%' GROUP BY 1, 2",
    )
    assert attempts == [("completed", 1, len(ids))]
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
    assert miscounted(database) == set()
    assert unaccounted(database) == []
