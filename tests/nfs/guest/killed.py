"""A writer is killed in the middle of a transaction; another client, that has long looked at the file, reads at once.

At once, since what a client remembers of a file expires after some seconds, and then every way looks sound.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from queuelog import StorageBusy
from tests.nfs.guest.evidence import examine, look
from tests.nfs.guest.hosts import Player, bound, make_copies, make_queue, opened, perform, seen_by, wait_until
from tests.nfs.guest.writer import FEW_PAGES, write_and_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

JOBS = 200
ROWS = 300
#: Seconds to wait for a lock: who looks again and again need not wait.
BRIEFLY = 0.05
#: Seconds for which the other client looks at the files, again and again, before anything happens.
LONG = 13.0


def run(folder: str, *, points: list[str] | None = None, mode: str | None = None) -> list[dict[str, Any]]:
    """Kill the store's writer at each point; or one on bare SQLite in a journal mode, on five files."""
    names = [f"{number}.db" for number in range(len(points or range(5)))]
    if mode is None:
        make_queue(folder, JOBS)
    else:
        Player(3, make_table, seen_by(3, folder), mode).join()
    make_copies(folder, names)
    paths = [seen_by(2, folder, name) for name in names]
    looker = Player(2, look_at_jobs, paths) if mode is None else Player(2, look_at_rows, paths, mode)
    looker.hear()
    results = []
    for index, name in enumerate(names):
        looker.tell(index)
        path = seen_by(1, folder, name)
        writer = Player(1, write_and_stop, path, points[index], False) if points else Player(1, spill, path, mode)
        wait_for_point(writer)
        reached = writer.is_stopped()
        writer.kill()
        looker.tell()
        results.append({"point": points[index] if points else mode, "reached": reached, "at once": looker.hear()})
    if mode is None:
        for result, found in zip(results, examine(folder, names), strict=True):
            result["later"] = found
    return results


def wait_for_point(writer: Player) -> None:
    wait_until(lambda: writer.is_stopped() or writer.has_spoken(), "the writer is at its point")


def look_at_jobs(line: Connection, paths: list[Path]) -> None:
    stores = [opened(path, busy_timeout=BRIEFLY) for path in paths]
    look_and_look(line, [partial(bound(store).get, 1) for store in stores], [partial(look, store) for store in stores])


def look_at_rows(line: Connection, paths: list[Path], mode: str) -> None:
    connections = [connect(path, mode) for path in paths]
    look_and_look(line, [partial(count, each) for each in connections], [partial(rows, each) for each in connections])


def look_and_look(
    line: Connection, glances: list[Callable[[], object]], looks: list[Callable[[], dict[str, Any]]]
) -> None:
    """Glance at every file for long, then at one until its writer is killed, and then read it at once."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        for glance in glances:
            glance()
        time.sleep(0.3)
    line.send("looked")
    while True:
        index = line.recv()
        while not line.poll():
            with suppress(StorageBusy):
                glances[index]()
        line.recv()
        found = None
        while found is None:
            with suppress(StorageBusy):
                found = looks[index]()
        line.send(found)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BRIEFLY, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def make_table(_: Connection, path: Path, mode: str) -> None:
    connection = connect(path, mode)
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INT, pad TEXT)")
    connection.execute("CREATE INDEX by_v ON t (v)")
    connection.executemany("INSERT INTO t (v, pad) VALUES (0, ?)", [("p" * 300,)] * ROWS)
    connection.execute("COMMIT")
    connection.close()


def spill(line: Connection, path: Path, mode: str) -> None:
    connection = connect(path, mode)
    connection.execute(f"PRAGMA cache_size = {FEW_PAGES}")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE t SET v = v + 1")
    os.kill(os.getpid(), signal.SIGSTOP)


def count(connection: sqlite3.Connection) -> int:
    with busy_as_such():
        (found,) = connection.execute("SELECT count(*) FROM t").fetchone()
    return int(found)


def rows(connection: sqlite3.Connection) -> dict[str, Any]:
    try:
        with busy_as_such():
            values = Counter(v for (v,) in connection.execute("SELECT v FROM t NOT INDEXED"))
            integrity = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    except sqlite3.DatabaseError as error:
        return {"values": {}, "integrity": [str(error)]}
    return {"values": values, "integrity": integrity}


@contextmanager
def busy_as_such() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StorageBusy from error
        raise


if __name__ == "__main__":
    perform(run)
