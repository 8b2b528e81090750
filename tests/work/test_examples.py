"""What examples/ and the README show is what they say."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import queuelog_client as client
from examples import beside_the_file
from queuelog import JobStatus, NewJob, Queue, Store
from queuelog_client.testing import InMemoryQueue
from tests.http.conftest import forget
from tests.support import ROOT, admin

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

README = (ROOT / "README.md").read_text()
CONTEXT = SimpleNamespace(aws_request_id="tick", get_remaining_time_in_millis=lambda: 300_000)


def test_the_worker_beside_the_file_does_its_own_types_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUELOG_DATABASE", str(tmp_path / "queue.db"))
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "email,pdf,sync")
    monkeypatch.setenv("QUEUELOG_LEASE_SECONDS", "77")
    forget()
    beside_the_file.queue.cache_clear()
    store = Store(tmp_path / "queue.db")
    bound = Queue(store).bound(admin())
    bound.enqueue_jobs([NewJob(type="sync", payload={"a": 1, "b": 2})] * 5 + [NewJob(type="email")])
    assert beside_the_file.handler({}, CONTEXT) == {"claimed": 5, "completed": 5, "failed": 0, "released": 0, "lost": 0}
    jobs = sorted(bound.list().jobs, key=lambda job: job.id)
    assert [job.status for job in jobs] == [JobStatus.COMPLETED] * 5 + [JobStatus.PENDING]
    assert jobs[0].result == {"fields": 2}
    assert {job.worker_id for job in jobs[:5]} == {"inside"}
    # The template's policy is its own as well.
    bound.enqueue(NewJob(type="sync"))
    (job,) = beside_the_file.queue().claim_jobs(limit=1, types=["sync"]).jobs
    assert job.claimed_at is not None
    assert job.lease_expires_at is not None
    assert (job.lease_expires_at - job.claimed_at).total_seconds() == 77
    store.close()
    beside_the_file.queue().queue._store.close()
    beside_the_file.queue.cache_clear()
    forget()


def test_the_task_of_the_readme_is_one() -> None:
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "resize" in each]
    module: dict[str, Any] = {}
    exec(code, module)
    queue = InMemoryQueue()
    queue.enqueue(client.NewJob(type="resize", payload={"width": 10}))
    assert queue.drain(module["tasks"]).completed == 1
    assert queue.get(1).result == {"width": 5}
