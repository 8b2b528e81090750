"""The function that copies the queue into a bucket (moto stands in for S3)."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
import time
from collections import Counter
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from boto3.exceptions import S3UploadFailedError
from moto import mock_aws

import back_up
from queuelog import DatabaseCorrupt, JobStatus, Queue, StorageUnavailable, Store
from queuelog_client.cli.backups import restore
from tests.faults.kernel import full, refusing
from tests.http.support import ROOT, success
from tests.race.racers import callers
from tests.support import add_jobs, admin, query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from tests.http.conftest import Log
    from tests.http.support import Api

BUCKET = "queuelog-backups"
KEY = "queue/2026-01-31T12-00-00.000Z.db"
WRITERS = 4


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Client]:
    """A region with an empty bucket, as the stack makes it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("QUEUELOG_BACKUP_BUCKET", BUCKET)
    with mock_aws():
        client: S3Client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        yield client


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lambda's /tmp."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def run(api: Api) -> dict[str, Any]:
    context = SimpleNamespace(aws_request_id="back-up", clock=api.clock)
    return back_up.handler(json.loads((ROOT / "events/back_up.json").read_text()), context)


def test_a_backup_is_a_whole_queue_under_its_time_with_its_checksum(api: Api, s3: S3Client, tmp_path: Path) -> None:
    api.new_job(payload={"to": "ada@example.com"})
    success(api.fail(api.claimed_job()["id"], error="boom"))
    made = run(api)
    assert made["key"] == KEY
    stored = s3.get_object(Bucket=BUCKET, Key=KEY, ChecksumMode="ENABLED")
    content = stored["Body"].read()
    checksum = hashlib.sha256(content)
    assert stored["Metadata"] == {"sha256": checksum.hexdigest()}
    assert stored["ChecksumSHA256"] == base64.b64encode(checksum.digest()).decode()
    assert made == {"key": KEY, "bytes": len(content), "sha256": checksum.hexdigest()}

    copy = tmp_path / "copy.db"
    copy.write_bytes(content)
    store = Store(copy)
    job = Queue(store).bound(admin()).get(1)
    store.close()
    assert (job.payload, job.error, job.retry_count) == ({"to": "ada@example.com"}, "boom", 1)


def test_the_copy_is_made_in_tmp_and_does_not_stay_there(api: Api, s3: S3Client, scratch: Path) -> None:
    api.new_job()
    run(api)
    assert list(scratch.iterdir()) == []
    # Nor beside the queue.
    assert {path.name.partition("-")[0] for path in api.database.parent.iterdir()} == {"queue.db", "tmp"}


def test_a_second_backup_takes_nothing_from_the_first(api: Api, s3: S3Client) -> None:
    api.new_job()
    run(api)
    api.new_job()
    # Even in the same millisecond, which is when Lambda delivers an event twice.
    run(api)
    versions = s3.list_object_versions(Bucket=BUCKET, Prefix=KEY)["Versions"]
    assert len({version["VersionId"] for version in versions}) == 2
    api.clock.advance(seconds=86_400)
    assert run(api)["key"] == "queue/2026-02-01T12-00-00.000Z.db"


def test_a_large_queue_goes_up_in_parts_and_comes_back_whole(api: Api, s3: S3Client, tmp_path: Path) -> None:
    api.new_job()
    add_jobs(api.database, 300, payload="'{\"x\": \"' || hex(randomblob(32000)) || '\"}'")
    made = run(api)
    assert made["bytes"] > 16 * 1024 * 1024
    assert s3.head_object(Bucket=BUCKET, Key=KEY, PartNumber=1)["ContentLength"] == 8 * 1024 * 1024
    assert restore(f"s3://{BUCKET}/{KEY}", tmp_path / "restored/queue.db", boto3.client).jobs == 301


def test_a_damaged_queue_is_not_a_backup(api: Api, s3: S3Client, scratch: Path) -> None:
    api.new_job()
    add_jobs(api.database, 1_000, idempotency_key="'key-' || n")
    query(api.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    with api.database.open("r+b") as file:
        file.seek(10 * 4_096)
        file.write(b"\xff" * 10 * 4_096)
    with pytest.raises(DatabaseCorrupt):
        run(api)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    assert list(scratch.iterdir()) == []


def test_a_bucket_that_takes_nothing_is_an_error_which_lambda_repeats(
    api: Api, s3: S3Client, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUELOG_BACKUP_BUCKET", "another-bucket")
    api.new_job()
    with pytest.raises(S3UploadFailedError, match="NoSuchBucket"):
        run(api)
    assert list(scratch.iterdir()) == []
    success(api.get(1))


def test_a_tmp_without_room_is_a_sentence_in_the_log_and_the_next_backup_is_whole(
    api: Api, s3: S3Client, scratch: Path, log: Log
) -> None:
    api.new_job()
    with refusing(full()) as there, pytest.raises(StorageUnavailable):
        there(lambda: run(api))
    assert list(scratch.iterdir()) == []
    (line,) = [line for line in log.lines if line["level"] == "ERROR"]
    assert "The file system is full" in line["message"]
    assert line["copy"].startswith(str(scratch))
    assert line["database"] == str(api.database)
    assert line["request_id"] == "back-up"
    assert run(api)["bytes"] > 0


def test_it_says_in_the_log_what_it_made(api: Api, s3: S3Client, log: Log) -> None:
    api.new_job(payload={"to": "ada@example.com"})
    made = run(api)
    (line,) = [line for line in log.lines if line["message"] == "backup"]
    assert {name: line[name] for name in made} == made
    assert line["request_id"] == "back-up"
    assert "ada@example.com" not in log.text


def test_a_backup_that_is_made_while_4_processes_write_is_consistent(
    tmp_path: Path, api: Api, s3: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in an account; tests/race takes backups of a local file too.
    path = tmp_path / "busy.db"
    store = cache(lambda: Store(path, network=True))
    monkeypatch.setattr(back_up, "store", store)
    Queue(store()).bound(admin()).list()
    add_jobs(path, 2_000, priority="(n % 4) * 10", type="'type-' || (n % 3)")
    with callers("die_and_live", True, WRITERS, "writer-{}") as writers:
        for number, writer in enumerate(writers):
            writer.tell(path, str(tmp_path / f"answers-{number}"))
        for _ in range(5):
            time.sleep(0.3)
            api.clock.advance(seconds=60)
            run(api)
    store().close()
    keys = sorted(each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"])
    assert len(keys) == 5
    sizes = []
    for key in keys:
        restored = tmp_path / key / "queue.db"
        sizes.append(restore(f"s3://{BUCKET}/{key}", restored, boto3.client).jobs)
        assert_consistent(restored)
    # They did write meanwhile, and each backup holds more than the one before.
    assert 2_000 <= sizes[0] < sizes[-1]
    assert sizes == sorted(sizes)


def assert_consistent(path: Path) -> None:
    """Check that a queue agrees with itself, and that it goes on."""
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    # Nothing was deleted, so that a gap would be a lost job.
    ((count, first, last),) = query(path, "SELECT count(*), min(id), max(id) FROM jobs")
    assert (first, last) == (1, count)
    jobs = query(path, "SELECT status, type, priority, count(*) FROM jobs GROUP BY 1, 2, 3")
    assert sorted(query(path, "SELECT status, type, priority, jobs FROM counts WHERE jobs > 0")) == sorted(jobs)
    held = query(path, "SELECT worker_id, count(*) FROM jobs WHERE status = 'running' GROUP BY 1")
    assert sorted(query(path, "SELECT worker_id, jobs FROM holders")) == sorted(held)
    attempts = Counter(id for (id,) in query(path, "SELECT job_id FROM attempts"))
    for id, status, attempt in query(path, "SELECT id, status, attempt FROM jobs"):
        assert attempts[id] == attempt - (status == JobStatus.RUNNING)
    completed = query(path, "SELECT count(*) FROM attempts WHERE outcome = 'completed'")
    assert completed == query(path, "SELECT count(*) FROM jobs WHERE status = 'completed'")

    store = Store(path)
    worker = Queue(store).bound(admin())
    job = worker.claim()
    assert job is not None
    assert worker.complete(job.id, lease_token=job.lease_token).status is JobStatus.COMPLETED
    store.close()
