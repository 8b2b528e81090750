"""What `make sam-invoke` and `make sam-api` do besides starting SAM CLI."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

from local.data import DataDirectory
from queuelog import Queue, Store
from tests.support import ROOT, admin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.containers.support import Lab


def test_make_sam_invoke_prints_the_answer_alone(lab: Lab, tmp_path: Path) -> None:
    settings = ["FUNCTION=EnqueueJobFunction", "EVENT=events/enqueue_job.json"]
    done = lab.run(["make", "--silent", "sam-invoke", *settings], tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["statusCode"] == 201


def test_an_unknown_function_fails(lab: Lab, tmp_path: Path) -> None:
    done = lab.run(["make", "sam-invoke", "FUNCTION=Unknown", "EVENT=events/health.json"], tmp_path / "data")
    assert done.returncode != 0
    assert "Unknown not found" in done.stderr


def test_what_functions_write_belongs_to_whom_the_queue_belongs_to(lab: Lab, tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    data.prepare()
    owner = 4321 if os.geteuid() == 0 else os.geteuid()
    for path in [data.path, *data.path.iterdir()]:
        os.chown(path, owner, -1)
    answer = lab.invoke("EnqueueJobFunction", ROOT / "events/enqueue_job.json", data.path).answer
    assert answer["statusCode"] == 201
    assert {path.name: path.stat().st_uid for path in data.path.iterdir()} == dict.fromkeys(
        ["keys.json", "principals.json", "principals.json.lock", "queue.db", "queue.db-shm", "queue.db-wal"], owner
    )
    # As the one whose files these are, or as root, this machine opens what a container left behind.
    with closing(Store(data.database)) as store:
        assert Queue(store).bound(admin()).get(1).id == 1
