"""`queuelog restore`: a backup takes the place of a queue, or nothing is changed; and `queuelog backup`."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from local.api import LocalApi
from queuelog import NewJob, Queue, Store
from queuelog_client.cli import backups
from queuelog_client.cli.backups import NotRestoredError, Restored
from tests import first_release
from tests.client.cli.support import add_resource, leave_a_log, made_by_make, queuelog
from tests.support import SteppedClock, add_jobs, admin, query

if TYPE_CHECKING:
    from pathlib import Path

    from botocore.config import Config
    from mypy_boto3_s3 import S3Client

BUCKET = "queuelog-backups"


@pytest.fixture
def s3(aws: None) -> S3Client:
    client: S3Client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The file of a local queue with three jobs, which nobody has open."""
    path = tmp_path / "data/queue.db"
    path.parent.mkdir()
    make_queue(path, jobs=3)
    return path


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of another queue, with five jobs."""
    source = tmp_path / "elsewhere.db"
    make_queue(source, jobs=5)
    copy = tmp_path / "backup.db"
    store = Store(source)
    store.back_up(copy)
    store.close()
    return copy


def restore(source: str, target: Path) -> Restored:
    return backups.restore(source, target, boto3.client)


def make_queue(path: Path, jobs: int) -> None:
    store = Store(path)
    Queue(store).bound(admin(), SteppedClock()).list()
    store.close()
    add_jobs(path, jobs)


def count(path: Path) -> int:
    ((jobs,),) = query(path, "SELECT count(*) FROM jobs")
    return int(jobs)


def everything_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_backup_takes_the_place_of_the_queue(target: Path, backup: Path) -> None:
    restored = restore(str(backup), target)
    assert restored.jobs == count(target) == 5
    assert count(backup) == 5


def test_it_makes_a_queue_where_there_is_none(tmp_path: Path, backup: Path) -> None:
    restored = restore(str(backup), tmp_path / "new/data/queue.db")
    assert restored == (5, None)
    assert [path.name for path in (tmp_path / "new/data").iterdir()] == ["queue.db"]


def test_the_local_api_goes_on_with_it(tmp_path: Path, backup: Path) -> None:
    with LocalApi(tmp_path / "data"):
        pass
    restore(str(backup), tmp_path / "data/queue.db")
    with LocalApi(tmp_path / "data"):
        assert count(tmp_path / "data/queue.db") == 5


def test_the_old_file_stays_beside_it_however_often_it_is_done(target: Path, backup: Path) -> None:
    before = target.read_bytes()
    first = restore(str(backup), target).kept
    second = restore(str(backup), target).kept
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("queue.db.before-restore-1", "queue.db.before-restore-2")
    assert first.read_bytes() == before
    assert {path.name for path in target.parent.iterdir()} == {"queue.db", first.name, second.name}
    # Which is how to undo it.
    assert restore(str(first), target).jobs == 3


def test_a_file_that_is_in_use_can_be_the_source(target: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "live.db")
    queue = Queue(store).bound(admin())
    for _ in range(4):
        queue.enqueue(NewJob(type="email"))
    # They are still in the log beside the file.
    assert (tmp_path / "live.db-wal").stat().st_size > 0
    assert restore(str(tmp_path / "live.db"), target).jobs == 4
    queue.enqueue(NewJob(type="email"))
    store.close()
    assert count(target) == 4


@pytest.mark.parametrize("network", [False, True], ids=["local", "network"])
def test_it_is_of_use_on_either_kind_of_file_system(target: Path, backup: Path, network: bool) -> None:
    restore(str(backup), target)
    store = Store(target, network=network)
    job = Queue(store).bound(admin()).claim()
    store.close()
    assert job is not None


def test_what_lies_beside_a_lost_file_does_not_get_into_the_new_one(tmp_path: Path, backup: Path) -> None:
    path = tmp_path / "data/queue.db"
    path.parent.mkdir()
    leave_a_log(path)
    path.unlink()
    assert restore(str(backup), path) == (5, None)
    assert count(path) == 5
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert (path.parent / "queue.db.before-restore-1-wal").exists()


def test_a_ruined_queue_is_put_aside_as_it_is(target: Path, backup: Path) -> None:
    target.write_bytes(b"ruined" * 1_000)
    kept = restore(str(backup), target).kept
    assert kept is not None
    assert kept.read_bytes() == b"ruined" * 1_000
    assert count(target) == 5


@pytest.mark.parametrize(("source", "sentence"), [((), "Missing argument 'SOURCE'"), ((" ",), "'SOURCE': is empty")])
def test_nothing_to_restore_is_refused(target: Path, source: tuple[str, ...], sentence: str) -> None:
    before = everything_in(target.parent)
    ran = queuelog("restore", f"--file={target}", *source)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.sentence
    assert everything_in(target.parent) == before


def test_a_missing_file_is_refused(target: Path, tmp_path: Path) -> None:
    assert_refused(str(tmp_path / "none.db"), target, "none.db can't be read")
    assert_refused(str(tmp_path), target, "can't be read")


@pytest.mark.parametrize("content", [b"", b"no such thing" * 1_000, b"SQLite format 3\0" + b"\xff" * 4_096])
def test_a_file_that_is_no_database_is_refused(target: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "garbage").write_bytes(content)
    assert_refused(str(tmp_path / "garbage"), target, "not a queue")


def test_half_a_backup_is_refused(target: Path, backup: Path) -> None:
    content = backup.read_bytes()
    backup.write_bytes(content[: len(content) // 2])
    assert_refused(str(backup), target, "damaged|not a queue")


def test_another_applications_database_is_refused(target: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE jobs (name TEXT)")
    assert_refused(str(tmp_path / "other.db"), target, "another application's")


def test_a_newer_major_release_is_refused(target: Path, backup: Path) -> None:
    query(backup, "PRAGMA user_version = 2000")
    assert_refused(str(backup), target, "newer major release")


def test_a_queue_that_is_in_use_is_left_alone(target: Path, backup: Path) -> None:
    store = Store(target)
    Queue(store).bound(admin()).list()
    with pytest.raises(NotRestoredError, match="in use: stop whatever has it open"):
        restore(str(backup), target)
    assert Queue(store).bound(admin()).claim() is not None
    store.close()
    assert restore(str(backup), target).jobs == 5


def test_a_local_api_that_runs_is_in_use(tmp_path: Path, backup: Path) -> None:
    with LocalApi(tmp_path / "data", clock=SteppedClock()) as api:
        api.run_schedules()
        with pytest.raises(NotRestoredError, match="in use"):
            restore(str(backup), tmp_path / "data/queue.db")


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path, backup: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotRestoredError, match="was not restored"):
        restore(str(backup), tmp_path / "file/data/queue.db")


def test_a_backup_comes_from_a_bucket(target: Path, backup: Path, s3: S3Client) -> None:
    s3.upload_file(str(backup), BUCKET, "queue/one.db")
    assert restore(f"s3://{BUCKET}/queue/one.db", target).jobs == count(target) == 5


def test_a_backup_whose_checksum_differs_is_refused(target: Path, backup: Path, s3: S3Client) -> None:
    s3.upload_file(str(backup), BUCKET, "queue/one.db", ExtraArgs={"Metadata": {"sha256": "0" * 64}})
    assert_refused(f"s3://{BUCKET}/queue/one.db", target, "SHA-256")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (f"s3://{BUCKET}/queue/none.db", "404"),
        ("s3://no-such-bucket/queue/one.db", "NoSuchBucket"),
        (f"s3://{BUCKET}", "can't be fetched"),
        ("s3://", "can't be fetched"),
    ],
)
def test_a_backup_that_is_not_there_is_refused(target: Path, s3: S3Client, source: str, reason: str) -> None:
    assert_refused(source, target, reason)


def assert_refused(source: str, target: Path, reason: str) -> None:
    """Check that a restore is refused with one sentence or two, and leaves everything as it was."""
    before = everything_in(target.parent)
    with pytest.raises(NotRestoredError, match=reason):
        restore(source, target)
    assert everything_in(target.parent) == before


def test_the_command_says_what_it_did_or_why_not(tmp_path: Path, target: Path, backup: Path) -> None:
    where = f"--data-dir={tmp_path / 'data'}"
    assert queuelog("restore", backup, where) == (
        0,
        f"{target} now holds the 5 jobs of {backup}.\nWhat was there before is in {target}.before-restore-1.\n",
        "",
    )
    code, out, err = queuelog("restore", tmp_path / "none.db", where)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {tmp_path / 'none.db'} was not restored. ")
    assert err.count("\n") == 1
    assert count(target) == 5
    for file in ("queue.db", "other.db"):
        ran = queuelog("restore", backup, f"--file={tmp_path / 'data' / file}", "--json")
        kept = None if file == "other.db" else f"{target}.before-restore-2"
        assert json.loads(ran.out) == {"file": str(tmp_path / "data" / file), "jobs": 5, "kept": kept}


def test_one_queue_is_named(tmp_path: Path, target: Path, backup: Path) -> None:
    ran = queuelog("restore", backup, f"--file={target}", f"--data-dir={tmp_path}")
    assert (ran.code, ran.sentence) == (2, "Error: --file and --data-dir name two queues: give one.")


def test_make_restore_passes_on_what_it_is_given(tmp_path: Path) -> None:
    assert made_by_make("restore", tmp_path, FROM="s3://b/k y", DATA_DIR="here") == [
        ["restore", "--data-dir=here", "--", "s3://b/k y"]
    ]


def test_a_queue_in_use_is_copied_and_nothing_is_overwritten(tmp_path: Path) -> None:
    store = Store(tmp_path / "queue.db")
    queue = Queue(store).bound(admin())
    for _ in range(4):
        queue.enqueue(NewJob(type="email"))
    copy = tmp_path / "copy.db"
    assert queuelog("backup", copy, f"--data-dir={tmp_path}") == (0, f"{copy} holds 4 jobs.\n", "")
    assert count(copy) == 4
    before = copy.read_bytes()
    again = queuelog("backup", copy, f"--data-dir={tmp_path}")
    assert again == (1, "", f"Error: {copy} is there already: name another file.\n")
    assert copy.read_bytes() == before
    as_json = queuelog("backup", tmp_path / "json.db", f"--file={tmp_path / 'queue.db'}", "--json")
    assert json.loads(as_json.out) == {"copy": str(tmp_path / "json.db"), "jobs": 4}
    store.close()


@pytest.mark.parametrize("file", ["missing.db", "garbage"])
def test_what_is_no_queue_is_not_copied(tmp_path: Path, file: str) -> None:
    (tmp_path / "garbage").write_bytes(b"no such thing" * 1_000)
    ran = queuelog("backup", tmp_path / "copy.db", f"--file={tmp_path / file}")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"Error: {tmp_path / file} was not copied. ")
    assert [each.name for each in tmp_path.iterdir()] == ["garbage"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Say where to"),
        (("copy.db", "--stack=queue"), "Say where to"),
        (("--stack=queue", "--file=queue.db"), "names a queue, and --file or --data-dir another one"),
        (("--stack=queue", "--data-dir=data"), "names a queue, and --file or --data-dir another one"),
    ],
)
def test_a_backup_is_of_one_queue_and_goes_to_one_place(arguments: tuple[str, ...], sentence: str) -> None:
    ran = queuelog("backup", *arguments)
    assert ran.code == 2
    assert sentence in ran.sentence


class Stack:
    """What AWS answers for a stack; the stubs check requests and answers against its own models."""

    def __init__(self) -> None:
        self.clients = {name: boto3.client(name, region_name="eu-central-1") for name in ("cloudformation", "lambda")}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()
        for name, id in (("BackUpFunction", "queue-BackUpFunction-1"), ("BackupBucket", "queue-backups")):
            add_resource(self.stubs["cloudformation"], name, id)

    def answers(self, body: object, **more: str) -> None:
        payload = StreamingBody(io.BytesIO(content := json.dumps(body).encode()), len(content))
        asked = {"FunctionName": "queue-BackUpFunction-1"}
        self.stubs["lambda"].add_response("invoke", {"StatusCode": 200, "Payload": payload, **more}, asked)

    def client(self, name: str, config: Config | None = None) -> Any:
        if name == "lambda":
            # A backup takes up to 15 minutes, and a second one would be made if botocore asked again.
            assert config is not None
            assert config.read_timeout > 900  # type: ignore[attr-defined]
            assert config.retries == {"total_max_attempts": 1}  # type: ignore[attr-defined]
        return self.clients[name]


def test_a_stack_backs_itself_up_and_says_where_to() -> None:
    stack = Stack()
    stack.answers({"key": "queue/2026-01-31.db", "bytes": 12_345, "sha256": "ab" * 32})
    ran = queuelog("backup", "--stack=queue", client=stack.client)
    said = f"s3://queue-backups/queue/2026-01-31.db holds 12,345 bytes, SHA-256 {'ab' * 32}.\n"
    assert ran == (0, said, "")
    stack = Stack()
    stack.answers({"key": "k", "bytes": 1, "sha256": "c"})
    as_json = queuelog("backup", "--stack=queue", "--json", client=stack.client)
    assert json.loads(as_json.out) == {"address": "s3://queue-backups/k", "bytes": 1, "sha256": "c"}


def test_a_stack_that_can_t_is_said_to_have_made_none() -> None:
    stack = Stack()
    stack.answers({"errorMessage": "The database file is damaged.", "errorType": "X"}, FunctionError="Unhandled")
    ran = queuelog("backup", "--stack=queue", client=stack.client)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Error: No backup of the stack queue was made: The database file is damaged. The log")
    stack = Stack()
    stack.stubs["lambda"].add_client_error("invoke", "AccessDeniedException", "no")
    ran = queuelog("backup", "--stack=queue", client=stack.client)
    assert ran.code == 1
    assert "is known to be made: An error occurred (AccessDeniedException)" in ran.err


def test_an_old_backup_is_brought_up_to_date_by_whoever_opens_it(tmp_path: Path, target: Path) -> None:
    old = tmp_path / "old.db"
    first_release.make_file(old)
    add_jobs(old, 7)
    assert restore(str(old), target).jobs == 7
    with LocalApi(target.parent, clock=SteppedClock()) as api:
        api.run_schedules()
    assert query(target, "SELECT jobs FROM counts") == [(7,)]
