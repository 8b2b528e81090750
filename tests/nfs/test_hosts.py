"""Four hosts on one file, with nothing worse than a server that restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.nfs.account import assert_as_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.nfs.lab import Lab

JOBS = 300


def test_four_clients_finish_every_job_once_while_they_enqueue(lab: Lab) -> None:
    found = lab.run("workers", seconds=600, jobs=JOBS, enqueued_by_each=25)
    assert_as_told(found)
    assert len(found["jobs"]) == JOBS
    assert {(status, attempt) for _, status, _, attempt, *_ in found["jobs"]} == {("completed", 1)}
    assert len({worker for _, _, worker, *_ in found["jobs"]}) == 4


def test_after_a_restart_of_the_server_everyone_goes_on_and_nothing_is_lost(
    lab: Lab, show: Callable[[str], None]
) -> None:
    words = assert_as_told(lab.run("restart", seconds=600))
    show(f"A restart of the server amid {words['claimed']} claims: {words['doubt']} verbs in doubt, 0 lost")


def test_a_client_that_is_frozen_between_two_requests_holds_no_lock(lab: Lab) -> None:
    rounds = lab.run("frozen", seconds=300)
    claims = [id for each in rounds for _, ids in each["meanwhile"] for id in ids]
    claims += [id for each in rounds if each["request"] == "claim" for id in each["outcome"][1]]
    for each in rounds:
        outcomes = [each["outcome"], *each["meanwhile"], each["next"]]
        assert {outcome for outcome, _ in outcomes} == {"acknowledged"}
    assert len(claims) == len(set(claims)) == len(rounds) * 15 + 1


def test_a_file_in_ordinary_wal_is_refused_and_left_as_it_is(lab: Lab) -> None:
    found = lab.run("refusal", seconds=120)
    assert found["files"] == ["queue.db", "queue.db-shm", "queue.db-wal"]
    assert found["answers"] == ["UnsafeJournalMode"] * 3
    assert found["is untouched"]
