"""What a scenario has at hand inside the virtual machine: processes on each client, their links, their counters."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog import NewJob, Principal, Queue, Role, Store
from tests.nfs.guest.stock import BUSY_TIMEOUT, StockDatabase

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from queuelog import BoundQueue

#: Seconds after which the server gives the locks of a silent client to others.
LEASE = int(Path("/proc/fs/nfsd/nfsv4leasetime").read_text())
CLIENTS = (1, 2, 3, 4)
#: Seconds that a scenario waits for a word of a process; the machine is emulated, and slow.
PATIENCE = 120.0
_FORK = multiprocessing.get_context("fork")
_CLONE_NEWNET = 0x40000000
_PR_SET_DUMPABLE = 4
_ORDINARY_USER = 1000


class Player:
    """A process on one of the clients, as an ordinary user, that says and hears Python values over a line."""

    def __init__(self, client: int, act: Callable[..., None], *arguments: object) -> None:
        self.line, theirs = pipe()
        self._process = _FORK.Process(target=_play, args=(client, act, theirs, arguments), daemon=True)
        # A fork, since Python starts slowly; nothing of the queue may be open in this process.
        self._process.start()
        theirs.close()
        self.pid = self._process.pid or 0

    def tell(self, word: object = None) -> None:
        self.line.send(word)

    def hear(self, seconds: float = PATIENCE) -> Any:
        if not self.line.poll(seconds):
            raise TimeoutError(f"a process said nothing for {seconds:g} s: {self._process}")
        return self.line.recv()

    def has_spoken(self) -> bool:
        return self.line.poll()

    def stop(self) -> None:
        """Freeze it, as a Lambda sandbox is frozen between two requests; its host lives on."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def is_stopped(self) -> bool:
        found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        return found is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def join(self, seconds: float = PATIENCE) -> None:
        """Wait for its end; raise RuntimeError unless it was a good one."""
        self._process.join(seconds)
        if self._process.exitcode != 0:
            raise RuntimeError(f"a process did not end well: {self._process}")


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something to become true; raise TimeoutError."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        time.sleep(0.1)


def pipe() -> tuple[Connection, Connection]:
    return _FORK.Pipe()


def _play(client: int, act: Callable[..., None], line: Connection, arguments: tuple[object, ...]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/c{client}").open() as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    os.setgroups([])
    os.setresgid(*[_ORDINARY_USER] * 3)
    os.setresuid(*[_ORDINARY_USER] * 3)
    # A process that changes its user may no longer read its own /proc/self/mountstats.
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    act(line, *arguments)


def perform(run: Callable[..., Any]) -> None:
    """Run a scenario, as the agent starts it, leave its result where the agent looks, and end this process."""
    folder, answer = sys.argv[1:]
    status = 1
    try:
        result = run(folder, **json.loads(os.environ["ARGUMENTS"]))
        Path(answer).write_text(json.dumps(result))
        status = 0
    except BaseException:  # noqa: BLE001 - said, and then the end
        traceback.print_exc()
    finally:
        # Not by sys.exit, which would wait for processes that are frozen or cut off.
        os._exit(status)


def folder_in_memory(folder: str) -> Path:
    """Return a new folder beside the export, that every process on every client may write to."""
    path = Path("/run") / folder
    path.mkdir()
    path.chmod(0o777)
    return path


def seen_by(client: int, folder: str, name: str = "queue.db") -> Path:
    """Return where a client has a file of the scenario's folder."""
    return Path(f"/mnt/c{client}") / folder / name


def set_link(client: int, state: str) -> None:
    subprocess.run(["ip", "-n", f"c{client}", "link", "set", "eth0", state], check=True)


def set_delay(milliseconds: int) -> None:
    """Let every client's requests take so long to leave."""
    for client in CLIENTS:
        change = ["tc", "-n", f"c{client}", "qdisc", "change", "dev", "eth0", "root", "netem", "delay"]
        subprocess.run([*change, f"{milliseconds}ms"], check=True)


def drop_caches() -> None:
    """Forget what clients and server have read, as a host has that was just started."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def opened(path: Path, *, stock: bool = False, busy_timeout: float = BUSY_TIMEOUT) -> Store:
    """Return the queue's own store, which finds out by itself that this is NFS, or one on stock SQLite."""
    store = Store(path, busy_timeout=busy_timeout)
    if stock:
        store._database = StockDatabase(path, busy_timeout)  # type: ignore[assignment]
    return store


def make_queue(folder: str, jobs: int, *, name: str = "queue.db", stock: bool = False) -> None:
    """Make a file with so many pending jobs, from client 3, which then has nothing of it open."""
    Player(3, _fill, seen_by(3, folder, name), stock, jobs).join(PATIENCE * 5)


def _fill(_: Connection, path: Path, stock: bool, jobs: int) -> None:
    store = opened(path, stock=stock)
    queue = bound(store)
    for first in range(0, jobs, 100):
        queue.enqueue_jobs([NewJob(type="email", payload={"text": "x" * 300})] * min(100, jobs - first))
    store.close()


def make_copies(folder: str, names: list[str], *, name: str = "queue.db") -> None:
    """Copy a file that nobody has open, on the server, under names that no client has looked for yet."""
    for suffix in ("", "-wal", "-journal", "-shm"):
        made = Path("/export") / folder / f"{name}{suffix}"
        if made.exists() or made.is_symlink():
            for copy in names:
                target = made.with_name(f"{copy}{suffix}")
                shutil.copyfile(made, target, follow_symlinks=False)
                os.chown(target, _ORDINARY_USER, _ORDINARY_USER, follow_symlinks=False)


def bound(store: Store, worker_id: str = "worker") -> BoundQueue:
    return Queue(store).bound(Principal(name="lab", roles=frozenset(Role), worker_id=worker_id))


def trips(client: int) -> dict[str, int]:
    """Return how many requests of each operation a client's mount has sent so far."""
    text = Path("/proc/self/mountstats").read_text()
    (mount,) = re.findall(rf"mounted on /mnt/c{client} .*?(?=^device |\Z)", text, re.DOTALL | re.MULTILINE)
    _, _, operations = mount.partition("per-op statistics")
    return {name: int(sent) for name, sent in re.findall(r"^\s+([A-Z_0-9]+): (\d+) ", operations, re.MULTILINE)}


def since(before: dict[str, int], client: int) -> dict[str, int]:
    return {name: more for name, sent in trips(client).items() if (more := sent - before.get(name, 0))}
