"""Copies of a queue: how one is made, and how one takes a queue's place.

It needs the queue's core, and boto3 for a stack and for S3.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from queuelog.errors import StorageError
from queuelog.store import snapshots
from queuelog_client.cli.registries import resource_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Client = Callable[..., Any]

#: Seconds. The function may take 900, and is not to be called a second time because of a lost answer.
LONGEST_BACKUP = 910


class NotCopiedError(Exception):
    """No copy was made; the message says why."""


class NotRestoredError(Exception):
    """The backup was not restored, and nothing was changed; the message says why."""


class Restored(NamedTuple):
    """How many jobs are there now, and where the file is that was there before."""

    jobs: int
    kept: Path | None


class Stored(NamedTuple):
    """A backup in a stack's bucket."""

    address: str
    bytes: int
    sha256: str


def copy_file(file: Path, copy: Path) -> int:
    """Copy a queue's file, which may be in use, and return how many jobs the copy holds; raise NotCopiedError."""
    try:
        return snapshots.take(file, copy)
    except FileExistsError as error:
        raise NotCopiedError(str(error)) from error
    except (StorageError, OSError) as error:
        raise NotCopiedError(f"{file} was not copied. {error}") from error


def copy_stack(stack: str, client: Client) -> Stored:
    """Let a stack make a backup now, and wait for it; raise NotCopiedError."""
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    patient = Config(read_timeout=LONGEST_BACKUP, retries={"total_max_attempts": 1}, tcp_keepalive=True)
    try:
        function = resource_of(stack, "BackUpFunction", client)
        bucket = resource_of(stack, "BackupBucket", client)
        answer = client("lambda", config=patient).invoke(FunctionName=function)
        said = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError) as error:
        raise NotCopiedError(f"No backup of the stack {stack} is known to be made: {error}") from error
    if "FunctionError" in answer:
        raise NotCopiedError(
            f"No backup of the stack {stack} was made: {said.get('errorMessage')} "
            "The log of BackUpFunction has a line of level ERROR that says more."
        )
    return Stored(f"s3://{bucket}/{said['key']}", said["bytes"], said["sha256"])


def restore(source: str, target: Path, client: Client) -> Restored:
    """Put a checked copy of `source` in the place of `target`, whose old file is kept; raise NotRestoredError."""
    try:
        snapshots.require_unused(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same directory, so that it can be moved into place at one stroke.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="restore-") as directory:
            copy = Path(directory) / "queue.db"
            if source.startswith("s3://"):
                _download(source, copy, client)
            else:
                snapshots.copy_file(Path(source), copy)
            jobs = snapshots.check(copy)
            return Restored(jobs, snapshots.put_in_place(copy, target))
    except (StorageError, OSError) as error:
        raise NotRestoredError(f"{source} was not restored. {error}") from error


def _download(source: str, copy: Path, client: Client) -> None:
    from boto3.exceptions import Boto3Error  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    bucket, _, key = source.removeprefix("s3://").partition("/")
    try:
        s3 = client("s3")
        expected = s3.head_object(Bucket=bucket, Key=key)["Metadata"].get("sha256")
        s3.download_file(bucket, key, str(copy))
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise NotRestoredError(f"{source} was not restored. It can't be fetched: {error}") from error
    with copy.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if expected is not None and found != expected:
        raise NotRestoredError(f"{source} was not restored. Its SHA-256 is not the one that it was written with.")
