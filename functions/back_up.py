"""Every night: a consistent copy of the queue into the stack's bucket."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import boto3

from queuelog.clock import timestamp
from web.app import faults_logged, logger, store
from web.clock import clock_of


def handler(_: dict[str, Any], context: Any) -> dict[str, Any]:
    """Copy the queue as it is at one moment, check the copy, and put it into the bucket with its checksum."""
    key = f"queue/{timestamp(clock_of(context).now()).replace(':', '-')}.db"
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "queue.db"
        with faults_logged(context, copy=str(copy)):
            store().back_up(copy)
        with copy.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        # In parts when it is large: S3 takes five gigabytes at once. It compares each part's checksum with what
        # arrives, and `make restore` the whole file's with what it gets back.
        boto3.client("s3").upload_file(
            str(copy),
            os.environ["QUEUELOG_BACKUP_BUCKET"],
            key,
            ExtraArgs={"ChecksumAlgorithm": "SHA256", "Metadata": {"sha256": checksum}},
        )
        size = copy.stat().st_size
    made: dict[str, Any] = {"key": key, "bytes": size, "sha256": checksum}
    logger.info("backup", request_id=context.aws_request_id, **made)
    return made
