"""Put a backup in the place of the local queue: `make restore FROM=queue.db` or `FROM=s3://bucket/queue/….db`."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import boto3
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from queuelog.errors import StorageError
from queuelog.store import snapshots


class NotRestoredError(Exception):
    """The backup was not restored, and nothing was changed; the message says why."""


class Restored(NamedTuple):
    """How many jobs are there now, and where the file is that was there before."""

    jobs: int
    kept: Path | None


def main() -> int:
    """Restore what FROM names into DATA_DIR, and return the exit code."""
    source = os.environ.get("FROM", "")
    target = Path(os.environ.get("DATA_DIR") or ".local") / "queue.db"
    try:
        restored = restore(source, target)
    except NotRestoredError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{target} now holds the {restored.jobs} jobs of {source}.")
    if restored.kept is not None:
        print(f"What was there before is in {restored.kept}.")
    return 0


def restore(source: str, target: Path) -> Restored:
    """Put a checked copy of `source` in the place of `target`, whose old file is kept; raise NotRestoredError."""
    if not source:
        raise NotRestoredError("Say what to restore: FROM=a file, or FROM=s3://bucket/key.")
    try:
        snapshots.require_unused(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same directory, so that it can be moved into place at one stroke.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="restore-") as directory:
            copy = Path(directory) / "queue.db"
            if source.startswith("s3://"):
                _download(source, copy)
            else:
                snapshots.copy_file(Path(source), copy)
            jobs = snapshots.check(copy)
            return Restored(jobs, snapshots.put_in_place(copy, target))
    except (StorageError, OSError) as error:
        raise NotRestoredError(f"{source} was not restored. {error}") from error


def _download(source: str, copy: Path) -> None:
    bucket, _, key = source.removeprefix("s3://").partition("/")
    try:
        s3 = boto3.client("s3")
        expected = s3.head_object(Bucket=bucket, Key=key)["Metadata"].get("sha256")
        s3.download_file(bucket, key, str(copy))
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise NotRestoredError(f"{source} was not restored. It can't be fetched: {error}") from error
    with copy.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if expected is not None and found != expected:
        raise NotRestoredError(f"{source} was not restored. Its SHA-256 is not the one that it was written with.")


if __name__ == "__main__":
    sys.exit(main())
