"""V-06: a claim that selects and then updates hands one job to two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.http.support import ROOT, success

if TYPE_CHECKING:
    from pathlib import Path

    from tests.http.support import Api

PROCESSES = 4
JOBS = 120

CLAIM_ALL = """
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from tests.http.support import MODULES, event, with_key

name, found, function = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
request = event(function, with_key(name, "worker"), body={"limit": 7} if function == "claim_jobs" else None)
print("ready", file=sys.stderr, flush=True)
sys.stdin.readline()
claimed = []
while True:
    answer = MODULES[function].handler(request, SimpleNamespace(aws_request_id=name))
    if answer["statusCode"] == 204:
        break
    if answer["statusCode"] == 200:
        body = json.loads(answer["body"])
        claimed += [str(job["id"]) for job in body.get("jobs", [body])]
found.write_text(" ".join(claimed))
"""


@pytest.mark.parametrize("function", ["claim_job", "claim_jobs"])
def test_many_processes_that_claim_at_once_get_each_job_once(api: Api, tmp_path: Path, function: str) -> None:
    mixed = [
        {"type": kind, "priority": priority} for kind in ("email", "pdf", "sync") for priority in ("low", "medium")
    ]
    for _ in range(JOBS // 60):
        success(api.enqueue_jobs(mixed * 10))
    found = [tmp_path / f"worker-{number}" for number in range(PROCESSES)]
    workers = [start_claiming(path, function) for path in found]
    for worker in workers:
        assert worker.stderr is not None
        assert worker.stderr.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    claimed = [int(id) for path in found for id in path.read_text().split()]
    assert sorted(claimed) == list(range(1, JOBS + 1))
    for path in found:
        for id in path.read_text().split():
            assert success(api.get(int(id)))["worker_id"] == path.name


def start_claiming(found: Path, function: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(["layers/queuelog/python", "functions", "."]),
        "POWERTOOLS_METRICS_NAMESPACE": "Queuelog",
    }
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CLAIM_ALL, found.name, str(found), function],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
