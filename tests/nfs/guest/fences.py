"""A writer is stopped at a point and its host is cut off, until the server has given its lock to others.

Another client commits twice meanwhile. Then the host comes back, and the writer goes on where it was. All points at
once, on a file each, so that one cut serves them all. In the variant "while another writes", the other client is in
the middle of a third transaction when the writer comes back, and is killed once that is done.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from queuelog import StorageError
from tests.nfs.guest.evidence import examine, look
from tests.nfs.guest.hosts import (
    LEASE,
    Player,
    bound,
    make_copies,
    make_queue,
    opened,
    perform,
    seen_by,
    set_link,
    wait_until,
)
from tests.nfs.guest.writer import attempt, claim_many, pinch, write_and_stop

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

JOBS = 200
#: Seconds between the tries of one who waits for the lease to end: dozens wait, in an emulated machine.
POLL = 1.0


class Case:
    """One file, its writer on client 1, and who overtakes it on client 2."""

    def __init__(self, folder: str, name: str, point: str, *, is_amid: bool, is_stock: bool) -> None:
        self.name = name
        self.result: dict[str, Any] = {"point": point, "amid": is_amid, "stock": is_stock}
        self._writer = Player(1, write_and_stop, seen_by(1, folder, name), point, is_stock)
        self._other: Player | None = None
        self._arguments = (seen_by(2, folder, name), is_amid, is_stock)

    def is_ready(self) -> bool:
        return self._writer.is_stopped() or self._writer.has_spoken()

    def begin(self) -> None:
        """Send another client after the lock, now that the writer's host is away."""
        self.result["reached"] = self._writer.is_stopped()
        self._other = Player(2, overtake, *self._arguments)

    def wait(self) -> None:
        """Wait until it has what it wants."""
        assert self._other is not None
        self.result["others"] = self._other.hear(240)
        if self.result["amid"]:
            wait_until(self._other.is_stopped, "another one is in the middle of a transaction")

    def go_on(self) -> None:
        if self.result["reached"]:
            self._writer.go_on()

    def end(self) -> None:
        """Hear what became of the writer's transaction, and of its next one."""
        assert self._other is not None
        self.result["writer"] = self._writer.hear(240)
        if self.result["amid"]:
            self._other.kill()
        self._writer.tell()
        self.result["next"] = self._writer.hear(LEASE + 120)


def run(folder: str, *, points: list[str], amid: list[str], stock: list[str]) -> list[dict[str, Any]]:
    make_queue(folder, JOBS)
    make_queue(folder, JOBS, name="stock.db", stock=True)
    ours = [f"{number}.db" for number in range(len(points) + len(amid))]
    theirs = [f"stock-{number}.db" for number in range(len(stock))]
    make_copies(folder, ours)
    make_copies(folder, theirs, name="stock.db")
    cases = [
        Case(folder, name, point, is_amid=number >= len(points), is_stock=False)
        for number, (name, point) in enumerate(zip(ours, points + amid, strict=True))
    ]
    cases += [
        Case(folder, name, point, is_amid=False, is_stock=True) for name, point in zip(theirs, stock, strict=True)
    ]
    wait_until(lambda: all(case.is_ready() for case in cases), "every writer is at its point", 240)
    set_link(1, "down")
    for step in (Case.begin, Case.wait):
        for case in cases:
            step(case)
    set_link(1, "up")
    for step in (Case.go_on, Case.end):
        for case in cases:
            step(case)
    player = Player(3, look_at_stock, [seen_by(3, folder, name) for name in theirs])
    found = examine(folder, ours) + [player.hear() for _ in theirs]
    return [case.result | seen for case, seen in zip(cases, found, strict=True)]


def overtake(line: Connection, path: Path, is_amid: bool, stock: bool) -> None:
    """Commit twice as soon as the lock can be had; then stop in the middle of a third transaction."""
    store = opened(path, stock=stock, busy_timeout=0.05)
    queue = bound(store, "other")
    claimed: list[int] = []
    errors: list[str] = []
    deadline = time.monotonic() + 200
    while len(claimed) < 120 and time.monotonic() < deadline:
        outcome, ids = attempt(lambda: claim_many(queue))
        claimed += ids
        if outcome != "acknowledged":
            errors.append(outcome)
            time.sleep(POLL)
    line.send({"claimed": claimed, "errors": sorted(set(errors))})
    if is_amid:
        pinch(store)
        claim_many(queue)


def look_at_stock(line: Connection, paths: list[Path]) -> None:
    for path in paths:
        store = opened(path, stock=True)
        try:
            line.send(look(store))
        except StorageError as error:
            line.send({"jobs": [], "integrity": [str(error)]})


if __name__ == "__main__":
    perform(run)
