"""A file that an ordinary SQLite on one host has in WAL mode, and the store on another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog import Store
from tests.nfs.guest.hosts import Player, bound, opened, perform, seen_by
from tests.nfs.guest.writer import attempt

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def run(folder: str) -> dict[str, Any]:
    here = Path("/export") / folder / "queue.db"
    store = Store(here)
    queue = bound(store)
    queue.list()
    for each in here.parent.iterdir():
        each.chmod(0o666)
    before = {each.name: each.read_bytes() for each in here.parent.iterdir()}
    player = Player(1, use, seen_by(1, folder))
    answers = [player.hear() for _ in range(3)]
    player.join()
    after = {each.name: each.read_bytes() for each in here.parent.iterdir()}
    store.close()
    return {"files": sorted(before), "answers": answers, "is untouched": before == after}


def use(line: Connection, path: Path) -> None:
    queue = bound(opened(path))
    line.send(attempt(lambda: [len(queue.list().jobs)])[0])
    line.send(attempt(lambda: [len(queue.claim_jobs().jobs)])[0])
    store = opened(path)
    line.send(attempt(lambda: [len(bound(store).list().jobs)])[0])


if __name__ == "__main__":
    perform(run)
