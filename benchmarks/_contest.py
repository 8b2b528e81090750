"""Queues against each other: each in a process of its own, on the same disk, in rounds that take turns."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from benchmarks._timing import Times, interleaved
from queuelog.store.file_system import file_system_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks._timing import Steps

THREADS = (1, 4, 16)
#: Of a round, for each number of threads.
JOBS = 200
WARM_UP = 1
#: Seconds after which there are no more rounds.
LIMIT = 60.0
#: Seconds without a word after which a worker counts as gone; the queue's own default.
PATIENCE = 60
#: The same where workers are killed.
SHORT_PATIENCE = 1

#: Starts what a contender needs, each command behind a prefix, and yields what is said to the contender.
Serve: TypeAlias = Callable[[Path, Sequence[str]], AbstractContextManager[str]]


class CannotRun(Exception):
    """Something is missing that the benchmark needs; says what to install."""


@contextmanager
def in_folder(folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """Serve a queue that is a file."""
    del prefix
    yield str(folder)


@contextmanager
def local_api(folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """Serve the API as `make run` does."""
    environment = os.environ | {"DATA_DIR": str(folder), "PORT": "0"}
    with (folder / "out").open("w") as out:
        server = subprocess.Popen(
            [*prefix, sys.executable, "-m", "local"], env=environment, stdout=out, process_group=0
        )
    with stopped(server, signal.SIGTERM):
        wait_until(lambda: "listens on" in (folder / "out").read_text(), server)
        url = (folder / "out").read_text().split("listens on ", 1)[1].split(",", 1)[0]
        yield json.dumps({"url": url, **json.loads((folder / "keys.json").read_text())})


@contextmanager
def postgresql(folder: Path, prefix: Sequence[str]) -> Iterator[str]:
    """Serve a cluster that is made for this, with PostgreSQL's own settings, on a socket in its folder."""
    binaries = postgresql_binaries()
    # It refuses root, who may yet start it as the user that Debian's package makes.
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    home = folder / "postgresql"
    home.mkdir(mode=0o700)
    as_user: dict[str, Any] = {}
    if user is not None:
        os.chown(home, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    making = [f"{binaries}/initdb", "--username=bench", "--auth=trust", "--no-sync", f"{home}/data"]
    serving = [*prefix, f"{binaries}/postgres", "-D", f"{home}/data", "-k", f"{home}", "-c", "listen_addresses="]
    with (folder / "log").open("wb") as log:
        subprocess.run(making, cwd=home, stdout=log, check=True, **as_user)
        server = subprocess.Popen(serving, cwd=home, stdout=log, stderr=log, process_group=0, **as_user)
    with stopped(server, signal.SIGINT):
        wait_until(lambda: b"ready to accept connections" in (folder / "log").read_bytes(), server)
        yield f"host={home} user=bench dbname=postgres"


def postgresql_binaries() -> Path:
    """Return the folder of the newest server that there is; raise CannotRun."""
    # Debian keeps versions side by side, and off the PATH.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    on_path = [Path(path).resolve() for path in [shutil.which("initdb")] if path]
    if not [*on_path, *found]:
        raise CannotRun("PostgreSQL's server is missing: apt-get install postgresql (it need not run).")
    return [*on_path, *found][-1].parent


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender, the Python that has what it needs, and the server that it needs."""

    contender: str
    serve: Serve = in_folder
    python: str = sys.executable


class Running:
    """A contender in its process, as a context manager."""

    def __init__(self, entry: Entry, where: str, *, patience: int = PATIENCE, prefix: Sequence[str] = ()) -> None:
        command = [*prefix, entry.python, "-m", "benchmarks._contenders", entry.contender, where, str(patience)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Its input ends, and so does it.
        self._process.communicate()

    def ask(self, verb: str, **said: object) -> Any:
        """Let it do something, and return what it answers."""
        self.tell(verb, **said)
        return self.hear()

    def tell(self, verb: str, **said: object) -> None:
        """Let it do something, without waiting."""
        assert self._process.stdin is not None
        print(json.dumps([verb, said]), file=self._process.stdin, flush=True)

    def hear(self) -> Any:
        """Return the next thing that it says; raise CannotRun when it has ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CannotRun(f"{self._process.args!r} ended; what it said stands above.")
        return json.loads(line)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._process.kill()
        self._process.wait()


@contextmanager
def on_one_disk() -> Iterator[Path]:
    """Yield a folder on a disk; raise CannotRun where nothing would be written to one."""
    # /tmp is in memory on many machines.
    with TemporaryDirectory(prefix="queuelog-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        if file_system_type(Path(folder)) in {"tmpfs", "ramfs"}:
            raise CannotRun(f"{folder} is in memory, where nothing is kept: set TMPDIR to a folder on a disk.")
        # So that PostgreSQL's user gets through to its own folders.
        Path(folder).chmod(0o711)
        yield Path(folder)


def race(entries: Mapping[str, Entry], folder: Path, *, jobs: int = JOBS, rounds: int, warm_up: int = WARM_UP) -> Times:
    """Time each contender's steps, which are those of `both` for each number of threads."""
    with ExitStack() as running:
        contenders = {}
        for number, (name, entry) in enumerate(entries.items()):
            own = folder / f"race-{number}"
            own.mkdir()
            where = running.enter_context(entry.serve(own, ()))
            contenders[name] = steps(running.enter_context(Running(entry, where)), jobs)
        return interleaved(contenders, rounds=rounds, warm_up=warm_up, limit=LIMIT)


def both(threads: int) -> tuple[str, str]:
    """Return the names of the two steps that are the whole way of a job."""
    return f"enqueue {threads}", f"work {threads}"


def steps(running: Running, jobs: int) -> Steps:
    def work(threads: int) -> None:
        done = running.ask("work", threads=threads)
        assert sorted(done) == list(range(jobs)), f"{len(done)} of {jobs} jobs were done"

    found: dict[str, Callable[[], object]] = {}
    for threads in THREADS:
        enqueued, worked = both(threads)
        found[enqueued] = partial(running.ask, "enqueue", jobs=jobs, threads=threads)
        found[worked] = partial(work, threads)
    return found | {"tidy": partial(running.ask, "tidy")}


def syncs(entry: Entry, folder: Path, *, jobs: int = JOBS // 2) -> dict[str, float]:
    """Count how often the disk is told to keep what was written, by step and job, in all processes of a contender."""
    calls = "trace=fsync,fdatasync,msync,sync_file_range,sync,syncfs"
    shared = Path(folder, "traces")
    shared.mkdir()
    # PostgreSQL's user writes one too.
    shared.chmod(0o777)

    def prefix(name: str) -> list[str]:
        return ["strace", "-f", "--seccomp-bpf", "-qq", "-e", calls, "-e", "signal=none", "-o", str(shared / name)]

    def count() -> int:
        lines = [line for trace in shared.iterdir() for line in trace.read_text().splitlines()]
        # A call that another one comes between has two lines.
        return sum("(" in line and "resumed>" not in line for line in lines)

    counted = {}
    with entry.serve(folder, prefix("server")) as where, Running(entry, where, prefix=prefix("client")) as running:
        running.ask("enqueue", jobs=jobs, threads=1)
        running.ask("work", threads=1)
        for step, do in steps(running, jobs).items():
            before = count()
            do()
            counted[step] = (count() - before) / jobs
    return counted


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of jobs that were being done."""

    #: Whose worker was killed.
    killed: int
    #: Of these, begun again by a worker that started afterwards.
    again: int
    #: Begun again only when the call was made that its documents recommend.
    after_recovery: int
    #: Of as many whose worker lived on, begun by a second worker as well.
    taken: int


def fate(entry: Entry, folder: Path) -> Fate:
    """Let one worker be killed, and one have a second beside it, in the middle of four jobs, with four more waiting."""
    with entry.serve(folder, ()) as where:
        start = partial(Running, entry, where, patience=SHORT_PATIENCE)
        with amid_four_jobs(start()) as held:
            pass
        # Long enough for leases to end that nobody extends.
        time.sleep(1.5 * SHORT_PATIENCE)
        with start() as heir:
            again = held & set(heir.ask("work", threads=4))
            heir.ask("recover")
            recovered = held & set(heir.ask("work", threads=4)) - again
        with amid_four_jobs(start()) as held_by_living:
            time.sleep(1.5 * SHORT_PATIENCE)
            with start() as second:
                taken = held_by_living & set(second.ask("work", threads=4))
    return Fate(len(held), len(again), len(recovered), len(taken))


@contextmanager
def amid_four_jobs(worker: Running) -> Iterator[set[int]]:
    """Yield the four of eight jobs that a worker is doing, and kill it at the end."""
    try:
        worker.ask("enqueue", jobs=8, threads=1)
        worker.tell("hang", threads=4)
        yield {worker.hear() for _ in range(4)}
    finally:
        worker.kill()


def sync_time(folder: Path) -> float:
    """Return the median seconds that the disk takes to keep a page."""
    seconds = []
    with (folder / "page").open("wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return median(seconds)


@contextmanager
def stopped(server: subprocess.Popen[bytes], how: signal.Signals) -> Iterator[None]:
    """Stop a server at the end."""
    try:
        yield
    finally:
        if server.poll() is None:
            # To the whole group: strace, if it's there, keeps signals to itself.
            os.killpg(server.pid, how)
            server.wait()


def wait_until(is_so: Callable[[], bool], server: subprocess.Popen[bytes]) -> None:
    while not is_so():
        if server.poll() is not None:
            raise CannotRun(f"{server.args!r} ended at once.")
        time.sleep(0.02)
