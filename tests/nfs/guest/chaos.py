"""The chaos test of processes, with the processes on four clients: its program as it is, and its checks on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.nfs.guest.hosts import CLIENTS, Player, bound, folder_in_memory, opened, perform, seen_by
from tests.race import chaos
from tests.race.aftermath import read_aftermath

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

#: Longer than the test of processes has it, in proportion to how slow this machine is.
chaos.LEASE_SECONDS = 5


def run(folder: str, *, seconds_of_chaos: float) -> dict[str, Any]:
    diaries = folder_in_memory(f"{folder}-diaries")
    maker = Player(3, make, seen_by(3, folder))
    maker.join()
    players = [
        Player(
            CLIENTS[number % len(CLIENTS)],
            play,
            action,
            seen_by(CLIENTS[number % len(CLIENTS)], folder),
            name,
            seconds_of_chaos,
            diaries,
        )
        for number, (action, name) in enumerate(chaos.PLAYERS)
    ]
    for player in players:
        player.join(seconds_of_chaos + 240)
    backup = Player(3, back_up, seen_by(3, folder), diaries / "copy.db")
    backup.join()
    return read_aftermath(diaries / "copy.db", diaries)


def make(_: Connection, path: Path) -> None:
    store = opened(path)
    bound(store).list()
    store.close()


def play(_: Connection, action: str, path: Path, name: str, seconds: float, diaries: Path) -> None:
    chaos.main(action, "network", str(path), name, str(seconds), str(diaries))


def back_up(_: Connection, path: Path, copy: Path) -> None:
    store = opened(path)
    store.back_up(copy)
    store.close()


if __name__ == "__main__":
    perform(run)
