"""What the way in which hosts share a file costs where it isn't needed: on a local disk."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._table import in_ms, show
from benchmarks._timing import interleaved
from benchmarks.floor import ROUNDS, WARM_UP, queue_steps


def run() -> None:
    with TemporaryDirectory(prefix="queuelog-bench-") as directory:
        contenders = {
            "local": queue_steps(Path(directory, "local.db"), network=False),
            "network": queue_steps(Path(directory, "network.db"), network=True),
        }
        times = interleaved(contenders, rounds=ROUNDS, warm_up=WARM_UP)
    rows = [
        [
            step,
            f"{times.ratio('network', 'local', step):.1f}",
            *(in_ms(times.median(name, step)) for name in contenders),
        ]
        for step in times.steps
    ]
    show(
        "The time of a verb as on a network file system over its time as on a local disk, both on this disk",
        ["", "network / local", "local", "network"],
        rows,
    )
