"""What importing a handler adds to the start of a bare Python, in fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from benchmarks._table import in_ms, show
from benchmarks._timing import interleaved

HANDLERS = ["authorize", "claim_job", "complete_job", "enqueue_job", "fail_job", "get_job", "health", "list_jobs"]
BARE = "pass"
ROUNDS = 7
#: Slow to import, and for nothing in a route: the authoriser alone needs boto3.
HEAVY = ("boto3", "aws_xray_sdk", "samcli")


def run() -> None:
    statements = {BARE: BARE} | {name: f"import {name}" for name in HANDLERS}
    # The first round also writes the bytecode, which a deployed layer brings along.
    times = interleaved(
        {name: {"start": partial(python, statement)} for name, statement in statements.items()},
        rounds=ROUNDS,
        warm_up=1,
    )
    bare = modules(BARE)
    rows = []
    for name in HANDLERS:
        imported = modules(statements[name])
        rows.append(
            [
                name,
                f"{times.ratio(name, BARE, 'start'):.1f}",
                in_ms(times.difference(name, BARE, "start")),
                in_ms(times.median(name, "start")),
                str(len(imported - bare)),
                ", ".join(heavy for heavy in HEAVY if heavy in imported) or "none",
            ]
        )
    show(
        "Importing a handler over bare Python, fresh interpreters",
        ["", "start / bare", "start - bare", "start", "modules", f"of {', '.join(HEAVY)}"],
        rows,
        f"A bare start takes {in_ms(times.median(BARE, 'start'))}.",
    )


def modules(statement: str) -> set[str]:
    return set(python(f"{statement}\nimport sys\nprint(*sys.modules)").split())


def python(code: str) -> str:
    environment = os.environ | {"QUEUELOG_DATABASE": "unused", "POWERTOOLS_METRICS_NAMESPACE": "Queuelog"}
    return subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True
    ).stdout
