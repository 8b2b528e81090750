"""A client is frozen between two requests, as Lambda freezes a sandbox, while the others work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from queuelog import NewJob
from tests.nfs.guest.hosts import CLIENTS, Player, bound, make_queue, opened, perform, seen_by
from tests.nfs.guest.writer import attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import BoundQueue

#: Claims of each other client while one is frozen.
CLAIMS = 5
REQUESTS = ("get", "enqueue", "claim", "complete", "empty claim")


def run(folder: str) -> list[dict[str, Any]]:
    make_queue(folder, 200)
    frozen = Player(1, answer, seen_by(1, folder))
    others = [Player(client, answer, seen_by(client, folder)) for client in CLIENTS[1:]]
    found = []
    for request in REQUESTS:
        outcome = ask(frozen, request)
        frozen.stop()
        # One after another: who must wait, waits for the frozen one alone.
        meanwhile = [ask(other, "claim") for other in others for _ in range(CLAIMS)]
        frozen.go_on()
        found.append({"request": request, "outcome": outcome, "meanwhile": meanwhile, "next": ask(frozen, "get")})
    return found


def ask(player: Player, request: str) -> tuple[str, list[int]]:
    player.tell(request)
    outcome: tuple[str, list[int]] = player.hear()
    return outcome


def answer(line: Connection, path: Path) -> None:
    queue = bound(opened(path), str(path))
    held: list[int] = []
    verbs: dict[str, Callable[[], list[int]]] = {
        "get": lambda: [queue.get(1).id],
        "enqueue": lambda: [queue.enqueue(NewJob(type="email")).job.id],
        "claim": partial(claim, queue, held),
        "complete": lambda: [queue.complete(held.pop()).id],
        "empty claim": lambda: [job.id for job in queue.claim_jobs(types=["pdf"]).jobs],
    }
    while True:
        line.send(attempt(verbs[line.recv()]))


def claim(queue: BoundQueue, held: list[int]) -> list[int]:
    held += [job.id for job in queue.claim_jobs().jobs]
    return held[-1:]


if __name__ == "__main__":
    perform(run)
