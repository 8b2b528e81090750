"""Six workers and two producers, the workers killed all the time: nothing is lost, and nothing is done twice.

CHAOS_SECONDS says for how long (3); `-s` shows what happened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queuelog import Queue, Store
from tests.race.aftermath import assert_that_every_job_ended_once, read_aftermath
from tests.race.chaos import PLAYERS
from tests.support import admin, directory_in_memory, start_python

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = float(os.environ.get("CHAOS_SECONDS", "3"))


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def path(network: bool) -> Iterator[Path]:
    """The queue after it was all over."""
    with directory_in_memory() as folder:
        path = Path(folder) / "queue.db"
        store = Store(path, network=network)
        Queue(store).bound(admin()).list()
        store.close()
        mode = "network" if network else "local"
        players = [
            start_python("-m", "tests.race.chaos", action, mode, str(path), name, str(SECONDS), folder)
            for action, name in PLAYERS
        ]
        try:
            for player in players:
                player.communicate(timeout=SECONDS + 120)
            assert [player.returncode for player in players] == [0] * len(players)
        finally:
            for player in players:
                player.kill()
                player.communicate()
        yield path


def test_every_job_ends_once_whoever_is_killed(path: Path, network: bool) -> None:
    found = read_aftermath(path, path.parent)
    # The way for hosts does fewer jobs in the time, and so is seldom late.
    lost_expected = 0 if network else 1
    summary = assert_that_every_job_ended_once(found, kills_expected=2 * SECONDS, lost_expected=lost_expected)
    print(f"\n{'network' if network else 'local'}, {SECONDS:g} s: {summary}")
