"""Other queues that a Python program can have on its own disk, on the same way of a job and with the same durability.

Each is used as its documents say. What a crash does to a job, and how often the disk is told to keep what was written,
is counted rather than believed.
"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

from benchmarks._contest import (
    JOBS,
    THREADS,
    CannotRun,
    Entry,
    Fate,
    both,
    fate,
    local_api,
    on_one_disk,
    postgresql,
    postgresql_binaries,
    race,
    sync_time,
    syncs,
)
from benchmarks._table import in_ms, show
from queuelog.store.file_system import file_system_type

# Apart, so that nothing of theirs is ever installed beside us.
PYTHON = ".venv-bench/bin/python"
OURS = "queuelog, core"
ENTRIES = {
    OURS: Entry("queuelog:Core"),
    "queuelog, local API": Entry("queuelog:Api", local_api),
    "huey, SqliteHuey": Entry("huey:Huey", python=PYTHON),
    "persist-queue, SQLiteAckQueue": Entry("persist_queue:PersistQueue", python=PYTHON),
    "litequeue": Entry("litequeue:Litequeue", python=PYTHON),
    "Procrastinate, PostgreSQL": Entry("procrastinate:Procrastinate", postgresql, PYTHON),
}
ROUNDS = 7
NOTES = """\
queuelog: one transaction to enqueue, one for each claim of as many jobs as threads are free, one for all that ended \
in the last 0.2 seconds. WAL, synchronous=FULL. A killed worker's jobs come back when their leases end.
queuelog, local API: an emulator of API Gateway that serves one request at a time; it shows what a call costs, and no \
limit of an account.
huey: deletes a job when it takes it, so that nothing is left to be written when the job ends, and nothing is left of \
a job whose worker dies. WAL; fsync=True, which is synchronous=FULL. Its Consumer, with threads.
persist-queue: one transaction each for put, get and ack. WAL, synchronous=FULL by SQLite's default. For one process: \
whoever opens the queue takes back what another one is doing. It has no worker; ours is a loop of get and ack.
litequeue: one transaction each for put, pop and done. WAL; it asks for synchronous=NORMAL, with which a power cut \
takes the last jobs along, and is set to FULL here. A dead worker's jobs stay locked until somebody calls \
retry_expired. It has no worker; ours is a loop of pop and done.
Procrastinate: one transaction each to defer, to fetch and to finish, over a socket to a server that does more than \
this. fsync and synchronous_commit are on, as by default. A dead worker's jobs stay "doing" until somebody calls \
get_stalled_jobs and retry_job."""


def run() -> None:
    require_what_it_needs()
    with on_one_disk() as folder:
        disk = f"{file_system_type(folder) or 'unknown'}; this disk syncs in {in_ms(sync_time(folder))}"
        times = race(ENTRIES, folder, rounds=ROUNDS)
        counted = {name: syncs(entry, subfolder(folder, f"syncs-{name}")) for name, entry in ENTRIES.items()}
        fates = {name: fate(entry, subfolder(folder, f"fate-{name}")) for name, entry in ENTRIES.items()}
    show(
        "Jobs a second, end to end, and their ratio to those of the core",
        ["", *(f"{threads} thread{'s' if threads > 1 else ''}" for threads in THREADS)],
        [
            [
                name,
                *(
                    f"{JOBS / times.median(name, *both(threads)):,.0f} ({times.ratio(OURS, name, *both(threads)):.2f})"
                    for threads in THREADS
                ),
            ]
            for name in ENTRIES
        ],
        f"{JOBS} jobs that do nothing: enqueued one by one from so many threads, then done with as many.\n"
        f"The time is that of both together, the median of {times.rounds} rounds. File system: {disk}.",
    )
    show(
        "What that pays for",
        ["", *(f"syncs per job, {threads}" for threads in THREADS), "after kill -9", "with a second worker"],
        [
            [
                name,
                *(f"{sum(counted[name][step] for step in both(threads)):.2f}" for threads in THREADS),
                after_a_kill(fates[name]),
                beside_another(fates[name]),
            ]
            for name in ENTRIES
        ],
        "Syncs: calls of fsync, fdatasync and the like in all processes, counted by strace.\n"
        "After kill -9: of the jobs that the worker was doing, how many another one that starts then does again.\n"
        "With a second worker: of the jobs that a living worker is doing, how many the second one does as well.",
    )
    for note in NOTES.splitlines():
        print(textwrap.fill(note, 118, subsequent_indent="  "))


def after_a_kill(found: Fate) -> str:
    lost = found.killed - found.again - found.after_recovery
    parts = [
        f"{found.again} again" if found.again else "",
        f"{found.after_recovery} again if asked" if found.after_recovery else "",
        f"{lost} lost" if lost else "",
    ]
    return ", ".join(part for part in parts if part)


def beside_another(found: Fate) -> str:
    return f"{found.taken} done twice" if found.taken else "none done twice"


def subfolder(folder: Path, name: str) -> Path:
    made = folder / name.replace(" ", "-").replace(",", "")
    made.mkdir()
    return made


def require_what_it_needs() -> None:
    postgresql_binaries()
    if shutil.which("strace") is None:
        raise CannotRun("strace is missing, which counts the syncs: apt-get install strace.")
    if not Path(PYTHON).exists():
        raise CannotRun(f"{PYTHON} is missing, with the other queues: `make bench` makes it.")
