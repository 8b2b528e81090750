"""The server restarts while four clients work: it forgets every lock, and gives the clients time to reclaim theirs."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from tests.nfs.guest.evidence import examine
from tests.nfs.guest.hosts import CLIENTS, folder_in_memory, make_queue, perform
from tests.nfs.guest.life import Life, wait_for_claims

JOBS = 200
#: Seconds for which the server is gone.
GONE = 3


def run(folder: str) -> dict[str, Any]:
    make_queue(folder, JOBS)
    diaries = folder_in_memory(f"{folder}-diaries")
    lives = [Life(client, folder, "queue.db", diaries, batch=5) for client in CLIENTS]
    wait_for_claims(lives, 3)
    subprocess.run(["rpc.nfsd", "0"], check=True)
    time.sleep(GONE)
    subprocess.run(["rpc.nfsd", "--no-nfs-version", "3", "16"], check=True)
    wait_for_claims(lives, 5)
    for life in lives:
        life.end()
    (found,) = examine(folder, ["queue.db"])
    return {**found, "diaries": {life.name: life.notes() for life in lives}}


if __name__ == "__main__":
    perform(run)
