"""What a queue's file holds in the end, as another client sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.nfs.guest.hosts import Player, folder_in_memory, opened, seen_by
from tests.support import miscounted, unaccounted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import Store

JOBS = "SELECT id, status, worker_id, attempt, payload ->> 'from', payload ->> 'number' FROM jobs"


def look(store: Store) -> dict[str, Any]:
    """Read all jobs and check every page, in one read transaction of the store."""
    with store._database.read() as connection:
        return {
            "jobs": [tuple(row) for row in connection.execute(JOBS)],
            "integrity": [text for (text,) in connection.execute("PRAGMA integrity_check(3)")],
        }


def examine(folder: str, names: list[str]) -> list[dict[str, Any]]:
    """Look at files from client 3, and count what is in a backup of each."""
    copies = folder_in_memory(f"{folder}-copies")
    player = Player(3, _examine, [(seen_by(3, folder, name), copies / name) for name in names])
    return [player.hear() for _ in names]


def _examine(line: Connection, files: list[tuple[Path, Path]]) -> None:
    for path, copy in files:
        store = opened(path)
        found = look(store)
        store.back_up(copy)
        line.send({**found, "miscounted": sorted(miscounted(copy)), "unaccounted": unaccounted(copy)})
        store.close()
