"""A client is cut off in the middle of a transaction while the others work, and comes back after its lease."""

from __future__ import annotations

from typing import Any

from tests.nfs.guest.evidence import examine
from tests.nfs.guest.hosts import (
    CLIENTS,
    LEASE,
    Player,
    folder_in_memory,
    make_queue,
    perform,
    seen_by,
    set_link,
    wait_until,
)
from tests.nfs.guest.life import Life, wait_for_claims
from tests.nfs.guest.points import SPILLED
from tests.nfs.guest.writer import write_and_stop

JOBS = 200


def run(folder: str) -> dict[str, Any]:
    make_queue(folder, JOBS)
    diaries = folder_in_memory(f"{folder}-diaries")
    writer = Player(1, write_and_stop, seen_by(1, folder), SPILLED, False)
    wait_until(writer.is_stopped, "the writer is in the middle of a transaction")
    set_link(1, "down")
    others = [Life(client, folder, "queue.db", diaries, batch=5) for client in CLIENTS[1:]]
    wait_for_claims(others, 3)
    set_link(1, "up")
    writer.go_on()
    outcome = writer.hear(LEASE + 120)
    writer.tell()
    after = writer.hear(LEASE + 120)
    writer.join()
    wait_for_claims(others, 3)
    for life in others:
        life.end()
    (found,) = examine(folder, ["queue.db"])
    notes = {life.name: life.notes() for life in others}
    return {**found, "writer": outcome, "next": after, "diaries": notes}


if __name__ == "__main__":
    perform(run)
