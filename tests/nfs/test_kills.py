"""A host whose process dies at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.nfs.account import assert_sound
from tests.nfs.guest.points import CHECKPOINT, POINTS, SPILLED, TRANSACTION
from tests.race.aftermath import assert_that_every_job_ended_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.nfs.lab import Lab

#: Jobs or rows that one transaction of the killed writer changes.
MANY = 60
ROWS = 300
CHAOS_SECONDS = 60


@pytest.fixture(scope="module")
def killed(lab: Lab) -> dict[str, list[dict[str, Any]]]:
    """What another client saw at once after the writer's death, by the point at which it died."""
    points = [SPILLED] * 5 + [*TRANSACTION, *CHECKPOINT]
    found: dict[str, list[dict[str, Any]]] = {}
    for result in lab.run("killed", seconds=400, points=points):
        found.setdefault(result["point"], []).append(result)
    return found


@pytest.mark.parametrize("point", [SPILLED, *TRANSACTION, *CHECKPOINT])
def test_after_a_kill_a_client_that_has_long_looked_reads_all_of_a_transaction_or_nothing(
    killed: dict[str, list[dict[str, Any]]], point: str
) -> None:
    for result in killed[point]:
        assert result["reached"]
        for found in (result["at once"], result["later"]):
            held = [id for id, _, worker, *_ in found["jobs"] if worker == "writer"]
            assert len(held) % MANY == 0
            assert len(found["jobs"]) % MANY == 200 % MANY
            assert found["integrity"] == ["ok"]
        assert result["at once"]["jobs"] == result["later"]["jobs"]
        assert_sound(result["later"])


def test_nothing_is_read_of_a_transaction_whose_writer_died_before_its_commit(
    killed: dict[str, list[dict[str, Any]]],
) -> None:
    for result in killed[SPILLED]:
        assert {worker for _, _, worker, *_ in result["at once"]["jobs"]} == {None}


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE"])
def test_sqlites_own_journal_reads_half_a_transaction_of_a_killed_writer(lab: Lab, mode: str) -> None:
    """An expected failure of SQLite, not of the store: why it does not use these modes."""
    results = lab.run("killed", seconds=300, mode=mode)
    assert len(results) == 5
    sound = {"values": {"0": ROWS}, "integrity": ["ok"]}
    assert [result for result in results if result["at once"] == sound] == []


def test_every_job_ends_once_whichever_client_is_killed(lab: Lab, show: Callable[[str], None]) -> None:
    found = lab.run("chaos", seconds=CHAOS_SECONDS + 400, seconds_of_chaos=CHAOS_SECONDS)
    summary = assert_that_every_job_ended_once(found, kills_expected=CHAOS_SECONDS / 2)
    show(f"Clients killed at random for {CHAOS_SECONDS} s: {summary}")


def test_every_point_is_met_by_a_test() -> None:
    assert set(POINTS) >= {*TRANSACTION, *CHECKPOINT}
