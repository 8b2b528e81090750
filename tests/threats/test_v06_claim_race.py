"""V-06: a claim that selects and then updates hands one job to two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.http.support import ROOT, success

if TYPE_CHECKING:
    from pathlib import Path

    from tests.http.support import Api

PROCESSES = 4
JOBS = 120

CLAIM_ALL = """
import sys
from pathlib import Path
from types import SimpleNamespace
import claim_job
from tests.http.support import event, with_key

name, found = sys.argv[1], Path(sys.argv[2])
request = event("claim_job", with_key(name, "worker"))
print("ready", file=sys.stderr, flush=True)
sys.stdin.readline()
claimed = []
while True:
    answer = claim_job.handler(request, SimpleNamespace(aws_request_id=name))
    if answer["statusCode"] == 204:
        break
    if answer["statusCode"] == 200:
        claimed.append(answer["body"].partition(",")[0].partition(":")[2])
found.write_text(" ".join(claimed))
"""


def test_many_processes_that_claim_at_once_get_each_job_once(api: Api, tmp_path: Path) -> None:
    for number in range(JOBS):
        api.new_job(type=("email", "pdf", "sync")[number % 3], priority=("low", "medium")[number % 2])
    found = [tmp_path / f"worker-{number}" for number in range(PROCESSES)]
    workers = [start(path) for path in found]
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


def start(found: Path) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(["layers/queuelog/python", "functions", "."]),
        "POWERTOOLS_METRICS_NAMESPACE": "Queuelog",
    }
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CLAIM_ALL, found.name, str(found)],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
