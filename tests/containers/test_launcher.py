"""What `make sam-invoke` and `make sam-api` do besides starting SAM CLI."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

from local.data import DataDirectory
from queuelog import Queue, Store
from tests.containers.support import sam_api
from tests.support import admin

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


def test_functions_run_and_write_as_whoever_the_queue_belongs_to(lab: Lab, tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    data.prepare()
    owner = 4321 if os.geteuid() == 0 else os.geteuid()
    for path in [data.path, *data.path.iterdir()]:
        os.chown(path, owner, -1)
    with sam_api(lab, tmp_path) as api:
        api.post("/jobs", "producer", {"type": "email"})
        users = {container.attrs["Config"]["User"] for container in api.containers()}
        assert users == {f"{owner}:{data.database.stat().st_gid}"}
        assert {path.name: path.stat().st_uid for path in data.path.iterdir()} == dict.fromkeys(
            ["keys.json", "principals.json", "principals.json.lock", "queue.db", "queue.db-shm", "queue.db-wal"], owner
        )
    # This machine opens what the killed containers left behind.
    with closing(Store(data.database)) as store:
        assert Queue(store).bound(admin()).get(1).id == 1
