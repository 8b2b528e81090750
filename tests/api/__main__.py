"""`make test-api`: whatever Schemathesis makes of the OpenAPI document, sent to the local API.

It fails on a 500, on an answer that the document doesn't describe, and on whatever else Schemathesis checks.
SEED (1) decides what is sent, EXAMPLES (100) how much for each route: a hundred take some two minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from local.api import LocalApi
from local.openapi import document
from queuelog import JobPriority, NewJob, Principal, Queue, Role, Store

HERE = Path(__file__).resolve().parent
SCHEMATHESIS = Path(".venv-api/bin/schemathesis")
JOB_TYPES = ["email", "pdf", "sync"]


#: Those whose ids schemathesis.toml knows.
JOBS = 60


def fill(database: Path) -> None:
    """Make jobs of every status, some of them held by the key that asks, so that no route only ever says no."""
    with contextlib.closing(Store(database)) as store:
        queue = Queue(store).bound(Principal(name="admin", roles=frozenset({Role.ADMIN})))
        queue.enqueue_jobs([NewJob(type="email", priority=JobPriority.LOW)] * JOBS)
        held = queue.claim_jobs(limit=JOBS * 2 // 3, lease_seconds=3_600).jobs
        for job in held[: len(held) // 2]:
            queue.fail(job.id, permanent=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        api = LocalApi(folder)
        fill(api.data.database)
        description = Path(folder) / "openapi.json"
        described = document()
        # Which types there are is for each stack to say; with any text as a type no job would ever be made.
        described["components"]["schemas"]["EnqueueRequest"]["properties"]["type"] = {"enum": JOB_TYPES}
        description.write_text(json.dumps(described), encoding="utf-8")
        terminal = sys.stdout
        # The functions print what they log.
        with api.data.open_log() as log, contextlib.redirect_stdout(log), api:
            command = [str(SCHEMATHESIS), "--config-file", str(HERE / "schemathesis.toml"), "run", str(description)]
            options = ["--url", api.url, "--seed", os.environ.get("SEED", "1")]
            amount = ["--max-examples", os.environ.get("EXAMPLES", "100")]
            environment = os.environ | {"QUEUELOG_API_KEY": api.keys["admin"]}
            done = subprocess.run([*command, *options, *amount], env=environment, stdout=terminal, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
