"""Worker processes over the functions in Lambda's own runtime: what befalls them costs no job, and none ends twice."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from queuelog_client import Beat, Ending, NewJob, QueueClient
from tests.client.process import MOMENTS
from tests.client.processes import forking, run, stop_under_load
from tests.containers.support import until
from tests.support import miscounted, query, unaccounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.containers.support import Api

JOBS_FOR_EACH_KILL = 5
#: Long enough for a container that is there; not so for one that has to start.
LEASE_SECONDS = 2


@pytest.fixture
def clients(api: Api) -> Iterator[dict[str, QueueClient]]:
    """A client for each role, of an API whose verbs of a worker have each had a call and so have a container."""
    url = f"http://127.0.0.1:{api.port}"
    with ExitStack() as ending:
        clients = {role: ending.enter_context(QueueClient(url, api_key=key)) for role, key in api.keys.items()}
        clients["producer"].enqueue_jobs([NewJob(type="sync")])
        for verb in ("release", "complete"):
            (job,) = clients["worker"].claim_jobs(types=["sync"]).jobs
            token = str(job.lease_token)
            clients["worker"].heartbeat_jobs([Beat(id=job.id, lease_token=token)])
            clients["worker"].finish_jobs([Ending(id=job.id, lease_token=token, verb=verb)])
        yield clients


def target(api: Api) -> dict[str, str]:
    return {"url": f"http://127.0.0.1:{api.port}", "key": api.keys["worker"]}


def test_workers_that_are_killed_at_every_moment_of_a_job_lose_none_and_end_none_twice(
    api: Api, clients: dict[str, QueueClient], report: list[str]
) -> None:
    database = api.data / "queue.db"
    job = NewJob(type="email", max_retries=25, backoff_seconds=0)
    ids = []
    with forking() as forks:
        for moment in MOMENTS:
            ids += [each.job.id for each in clients["producer"].enqueue_jobs([job] * JOBS_FOR_EACH_KILL)]
            told = run(forks, **target(api), die_at=moment, lease_seconds=LEASE_SECONDS)
            assert told[-1] == ["over", str(-signal.SIGKILL)]

        def are_done() -> bool:
            # Nobody tells the queue that those workers are dead: their leases have to end.
            assert run(forks, **target(api), until_empty=True)[-1] == ["over", "0"]
            return query(database, "SELECT DISTINCT status FROM jobs WHERE type = 'email'") == [("completed",)]

        until(are_done, "the end of every lease")
    found = query(database, "SELECT job_id, outcome FROM attempts JOIN jobs ON id = job_id WHERE type = 'email'")
    completed = [id for id, outcome in found if outcome == "completed"]
    assert sorted(completed) == ids
    outcomes = Counter(outcome for _, outcome in found)
    assert outcomes.keys() == {"completed", "lease_expired"}
    assert miscounted(database) == set()
    assert unaccounted(database) == []
    report.append(
        f"{len(MOMENTS)} workers were killed -9, one at each moment of a job: {len(ids)} jobs, each completed once; "
        f"{outcomes['lease_expired']} leases ended."
    )


def test_a_worker_that_is_stopped_under_load_leaves_no_job_to_its_lease(
    api: Api, clients: dict[str, QueueClient], report: list[str]
) -> None:
    report.append(f"{stop_under_load(clients['producer'], clients['admin'], target(api), grace=6)}.")
