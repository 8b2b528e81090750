"""The whole way of a job, enqueued, claimed and completed: by the core over a file, and over the local API."""

from __future__ import annotations

from benchmarks._contest import JOBS, THREADS, WARM_UP, Entry, both, local_api, on_one_disk, race, sync_time
from benchmarks._table import in_ms, show

CORE, API = "core", "local API"
ENTRIES = {CORE: Entry("queuelog:Core"), API: Entry("queuelog:Api", local_api)}
ROUNDS = 5


def run(*, jobs: int = JOBS, rounds: int = ROUNDS, warm_up: int = WARM_UP) -> None:
    with on_one_disk() as folder:
        disk = in_ms(sync_time(folder))
        times = race(ENTRIES, folder, jobs=jobs, rounds=rounds, warm_up=warm_up)
    rows = []
    for name in ENTRIES:
        for threads in THREADS:
            enqueued, worked = both(threads)
            rows.append(
                [
                    f"{name}, {threads} thread{'s' if threads > 1 else ''}",
                    f"{jobs / times.median(name, enqueued, worked):,.0f}",
                    f"{times.ratio(CORE, name, enqueued, worked):.2f}",
                    f"{jobs / times.median(name, enqueued):,.0f}",
                    f"{jobs / times.median(name, worked):,.0f}",
                ]
            )
    show(
        "Jobs a second, end to end",
        ["", "jobs/s", "/ core", "enqueued/s", "done/s"],
        rows,
        f"{jobs} jobs that do nothing: enqueued one by one from so many threads, then done by a Worker of as many.\n"
        "The time is that of both together, until the queue knows that all have ended.\n"
        f"Medians of {times.rounds} rounds. This disk syncs in {disk}.",
    )
