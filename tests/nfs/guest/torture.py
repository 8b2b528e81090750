"""Several files, each with a worker on two clients, one of which is cut off again and again at moments of chance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.nfs.guest.evidence import examine
from tests.nfs.guest.hosts import folder_in_memory, make_copies, make_queue, perform, set_link
from tests.nfs.guest.life import Life, wait_for_claims

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS = 200
BATCH = 10


def run(folder: str, *, files: int, cuts: Sequence[float]) -> list[dict[str, Any]]:
    make_queue(folder, JOBS)
    names = [f"{number}.db" for number in range(files)]
    make_copies(folder, names)
    diaries = folder_in_memory(f"{folder}-diaries")
    lives = [[Life(client, folder, name, diaries, batch=BATCH) for client in (1, 2)] for name in names]
    everyone = [life for pair in lives for life in pair]
    wait_for_claims(everyone, 2)
    for seconds in cuts:
        set_link(1, "down")
        time.sleep(seconds)
        set_link(1, "up")
        wait_for_claims(everyone, 2)
    for life in everyone:
        life.player.tell()
    for life in everyone:
        life.player.join(300)
    return [
        {**found, "diaries": {life.name: life.notes() for life in pair}}
        for found, pair in zip(examine(folder, names), lives, strict=True)
    ]


if __name__ == "__main__":
    perform(run)
