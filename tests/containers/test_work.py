"""The scheduled worker in Lambda's own runtime, against a local API outside its container."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import boto3

from local.api import LocalApi
from queuelog_client import JobStatus, NewJob, QueueClient
from tests.containers.support import BUCKET
from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.containers.support import Lab

EVENT = ROOT / "events/work.json"
EMPTY = {"claimed": 0, "completed": 0, "failed": 0, "released": 0, "lost": 0}


def test_the_worker_does_what_is_due_in_the_local_queue_and_ends(lab: Lab, tmp_path: Path, s3: dict[str, str]) -> None:
    with LocalApi(tmp_path / "data") as api:
        settings = {**s3, "QUEUELOG_DOCUMENT_BUCKET": BUCKET, "PORT": api.url.rpartition(":")[2]}
        with QueueClient(api.url, api_key=api.keys["admin"]) as queue:
            queue.enqueue_jobs([NewJob(type="pdf", payload={"title": "Ада", "text": "Πώς;"})] * 5)
            # Nobody has told it of a sender or of hosts, so it leaves these alone.
            queue.enqueue_jobs([NewJob(type="email"), NewJob(type="sync")])
            worked = lab.invoke("WorkFunction", EVENT, tmp_path / "data", **settings)
            assert worked.answer == {**EMPTY, "claimed": 5, "completed": 5}, worked.log
            jobs = {job.id: job for job in queue.iterate()}
            assert [jobs[id].status for id in range(1, 8)] == [JobStatus.COMPLETED] * 5 + [JobStatus.PENDING] * 2
            for id in range(1, 6):
                result = jobs[id].result
                stored = boto3.client("s3").get_object(Bucket=BUCKET, Key=result["key"])["Body"].read()
                assert (len(stored), stored[:5]) == (result["bytes"], b"%PDF-")
        again = lab.invoke("WorkFunction", EVENT, tmp_path / "data", **settings)
        assert again.answer == EMPTY
    lines = [json.loads(each) for each in worked.log.splitlines() if each.startswith("{")]
    assert [each["completed"] for each in lines if each.get("message") == "work"] == [5]
    assert [each["JobsCompleted"] for each in lines if "_aws" in each] == [[5.0]]
