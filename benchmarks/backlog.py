"""Claims from short and from long queues: what else is in the file must not tell in the time."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks._table import against, in_ms, show
from benchmarks._timing import interleaved
from queuelog import Principal, Queue, Role, Store, SystemClock
from queuelog.clock import timestamp
from queuelog.store.store import SQL
from tests.support import add_jobs

if TYPE_CHECKING:
    from benchmarks._timing import Steps

GOAL = 1.3
#: With the warm-up fewer than the critical jobs in the smallest file, so that each claim takes one of these.
ROUNDS = 100
WARM_UP = 20
WORKER = Principal(name="bench", roles=frozenset({Role.WORKER}))


def run() -> None:
    with TemporaryDirectory(prefix="queuelog-bench-") as directory:
        folder = Path(directory)
        mixed = {f"{size:,} jobs": any_type(folder / f"mixed-{size}.db", size) for size in (1_000, 100_000, 1_000_000)}
        behind = {
            f"by type, behind {size:,} others": one_type(folder / f"behind-{size}.db", size)
            for size in (1_000, 1_000_000)
        }
        delayed = {
            f"{count:,} pending, {late:,} delayed": with_delayed(folder / f"delayed-{late}.db", count, late)
            for count, late in ((1_000, 0), (1_000_000, 1_000_000))
        }
        times = interleaved(mixed | behind | delayed, rounds=ROUNDS, warm_up=WARM_UP)
    rows = []
    for group in (mixed, behind, delayed):
        first = next(iter(group))
        rows += [
            [
                name,
                "1" if name == first else against(times.ratio(name, first, "claim"), GOAL),
                in_ms(times.median(name, "claim")),
                "1" if name == first else f"{times.ratio(name, first, 'look'):.2f}",
                in_ms(times.median(name, "look")),
            ]
            for name in group
        ]
    show(
        "Claims, by what is in the file",
        ["", "claim / first", "claim", "look / first", "look"],
        rows,
        f"The look is the claim's search alone, in a read transaction. {WARM_UP} claims on each file come before the\n"
        "first that is timed; the files are in the system's cache, having just been written.",
    )


def any_type(path: Path, jobs: int) -> Steps:
    """Return claims of any job from a file of which half is completed, half pending, of all types and priorities."""
    make_schema(path)
    add_jobs(
        path,
        jobs,
        type="CASE n % 3 WHEN 0 THEN 'email' WHEN 1 THEN 'pdf' ELSE 'sync' END",
        priority="n / 2 % 4 * 10",
        status="iif(n % 2, 'completed', 'pending')",
    )
    return claim_steps(path, None)


def one_type(path: Path, others: int) -> Steps:
    """Return claims of a type that stands behind pending jobs of another type, of all priorities."""
    make_schema(path)
    add_jobs(path, others, type="'pdf'", priority="n % 4 * 10")
    add_jobs(path, 2 * (ROUNDS + WARM_UP), type="'email'")
    return claim_steps(path, ["email"])


def with_delayed(path: Path, count: int, late: int) -> Steps:
    """Return claims of pending jobs of low priority, with delayed ones of high priority in front."""
    make_schema(path)
    add_jobs(path, count, priority="0")
    if late:
        add_jobs(path, late, priority="20 + n % 2 * 10", due_at="'2999-01-01T00:00:00.000Z'")
    return claim_steps(path, None)


def make_schema(path: Path, *, network: bool = False) -> None:
    store = Store(path, network=network)
    store.get(1)
    store.close()


def claim_steps(path: Path, types: list[str] | None) -> Steps:
    store = Store(path, network=False)
    queue = Queue(store).bound(WORKER)
    values = {"types": types and json.dumps(types), "now": timestamp(SystemClock().now())}

    def claim() -> None:
        assert queue.claim(types=types) is not None

    def look() -> None:
        with store._database.read() as connection:
            assert connection.execute(SQL["next_job"], values).fetchall()

    return {"claim": claim, "look": look}
