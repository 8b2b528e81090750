"""A host that is cut off for longer than the server keeps its locks, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.nfs.account import assert_as_told, assert_sound
from tests.nfs.guest.points import CHECKPOINT, POINTS, SPILLED, STOCK, TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.nfs.lab import Lab

FENCED = [SPILLED, *TRANSACTION, *CHECKPOINT]
#: Where another client is in the middle of a transaction of its own when the stale writer comes back.
AMID = [
    SPILLED,
    "before the WAL is written",
    "in the middle of the WAL's writes",
    "before the WAL's fsync",
    "after the WAL's fsync",
    "after the file's first write",
    "before the file's fsync",
    "before the WAL is cut",
]
JOBS = 200
MANY = 60
#: What a verb may say that could not commit.
REFUSALS = {"StorageUnavailable", "StorageBusy"}


@pytest.fixture(scope="module")
def cases(lab: Lab) -> dict[tuple[str, bool, bool], dict[str, Any]]:
    found = lab.run("fences", seconds=800, points=FENCED, amid=AMID, stock=[*STOCK])
    return {(case["point"], case["amid"], case["stock"]): case for case in found}


def held_by(case: dict[str, Any], worker: str) -> set[int]:
    return {id for id, _, who, *_ in case["jobs"] if who == worker}


@pytest.mark.parametrize(
    ("point", "is_amid"), [*((point, False) for point in FENCED), *((point, True) for point in AMID)]
)
def test_a_stale_writer_never_lands_and_no_acknowledged_commit_is_lost(
    cases: dict[tuple[str, bool, bool], dict[str, Any]], point: str, is_amid: bool
) -> None:
    case = cases[point, is_amid, False]
    writer, others = case["writer"], case["others"]
    assert case["reached"]
    # Others went on while the writer's host was away, and what they were told stands.
    assert len(set(others["claimed"])) == len(others["claimed"]) == 2 * MANY
    assert set(others["errors"]) <= REFUSALS
    assert held_by(case, "other") == set(others["claimed"])
    # So does what the writer was told; what it could not commit, it was told, and nothing of it is there.
    stray = held_by(case, "writer") ^ set(writer["claimed"])
    stray |= {id for id, *_ in case["jobs"] if id > JOBS} ^ set(writer["enqueued"])
    if point != SPILLED and POINTS[point].may_be_done:
        assert len(stray) in ({0} if writer["outcome"] == "acknowledged" else {0, MANY})
    else:
        assert writer["outcome"] in REFUSALS
        assert stray == set()
    assert case["next"] == "acknowledged"
    assert_sound(case)


def test_the_same_cut_undoes_acknowledged_commits_of_sqlites_own_journal(
    cases: dict[tuple[str, bool, bool], dict[str, Any]],
) -> None:
    """An expected failure of SQLite, not of the store: no lock fences its journal."""
    (point,) = STOCK
    case = cases[point, False, True]
    assert case["reached"]
    assert len(case["others"]["claimed"]) == 2 * MANY
    assert set(case["others"]["claimed"]) - held_by(case, "other")


def test_a_stale_reader_is_told_so_rather_than_shown_a_mixture(lab: Lab) -> None:
    found = lab.run("stale_reader", seconds=600)
    # An error, or all as it was in one moment.
    assert found["outcome"] in REFUSALS or set(found["statuses"]) in ({"pending"}, {"running"})
    assert found["next"] == "acknowledged"


def test_others_go_on_after_the_lease_of_a_client_that_was_cut_off_in_mid_transaction(lab: Lab) -> None:
    found = lab.run("cut_off", seconds=600)
    assert found["writer"]["outcome"] in REFUSALS
    assert found["writer"]["claimed"] == []
    assert found["next"] == "acknowledged"
    assert held_by(found, "writer") == set()
    assert_as_told(found)


def test_whatever_is_cut_at_random_moments_the_file_is_what_its_workers_were_told(
    lab: Lab, show: Callable[[str], None]
) -> None:
    files = lab.run("torture", seconds=900, files=5, cuts=[33, 33, 33])
    told = [assert_as_told(found) for found in files]
    for words in told:
        assert words["claimed"] > 10
    assert sum(words["busy"] + words["doubt"] for words in told) > 0
    commits = sum(words[word] for words in told for word in ("made", "claimed", "completed"))
    doubts, busy = (sum(words[word] for words in told) for word in ("doubt", "busy"))
    show(f"Three cuts on {len(files)} files: {commits} commits acknowledged, {doubts} in doubt, {busy} refused; 0 lost")
