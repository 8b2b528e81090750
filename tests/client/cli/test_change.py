from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog_client import JobStatus, NewJob
from tests.client.cli.support import Terminal
from tests.client.support import LOSE_ANSWER, LOSE_REQUEST, Wire
from tests.support import START

if TYPE_CHECKING:
    from tests.client.cli.support import Shell


def statuses(shell: Shell) -> dict[int, str]:
    return {job.id: job.status.value for job in shell.stack.admin.iterate()}


@pytest.fixture
def failed(shell: Shell) -> Shell:
    """A queue with three failed jobs, a minute apart: two that timed out, and a pdf."""
    stack = shell.stack
    for type, error in (("email", "timed out"), ("email", "timed out"), ("pdf", "no font")):
        stack.admin.enqueue(NewJob(type=type))
        (job,) = stack.worker.claim_jobs().jobs
        stack.worker.fail(job.id, lease_token=job.lease_token, error=error, permanent=True)
        stack.clock.advance(seconds=60)
    return shell


def test_jobs_are_cancelled_and_what_is_refused_is_told(shell: Shell) -> None:
    shell.stack.admin.enqueue_jobs([NewJob(type="email")] * 3)
    shell.stack.worker.claim_jobs()
    result = shell.run("cancel", 1, 99, 2, 2)
    assert result.code == 1
    assert result.out == "Job 1 is running, and its worker is asked to stop.\nJob 2 is cancelled.\n"
    assert result.err == (
        "Job 99: There is no such job, or you may not see it.\nError: 1 job of 3 could not be changed.\n"
    )
    assert shell.json("cancel", 3) == {"jobs": [shell.json("job", 3) | {"attempts": None}], "refused": []}


def test_a_queue_that_goes_away_leaves_the_rest_to_do(shell: Shell, wire: Wire) -> None:
    shell.stack.admin.enqueue_jobs([NewJob(type="email")] * 3)
    shell.url = wire.url
    wire.plan.extend([None, LOSE_REQUEST])
    result = shell.run("cancel", 1, 2, 3)
    assert (result.code, result.out) == (75, "Job 1 is cancelled.\n")
    assert result.err.endswith(" Left to do: 2, 3.\n")


def test_jobs_are_retried_by_their_ids(failed: Shell) -> None:
    assert failed.says("retry", 1, 3) == "Job 1 is pending.\nJob 3 is pending.\n"
    assert failed.fails(1, "retry", 1).startswith("Job 1: ")


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], [1, 2, 3]),
        (["--type", "pdf"], [3]),
        (["--error-contains", "timed"], [1, 2]),
        (["--failed-after", (START + timedelta(seconds=30)).isoformat()], [2, 3]),
        (["--failed-before", (START + timedelta(seconds=30)).isoformat()], [1]),
        (["--failed-before", "1s", "--failed-after", "2000d", "--limit", 2], [1, 2]),
    ],
)
def test_jobs_are_retried_by_what_they_have_in_common(failed: Shell, arguments: list[str], ids: list[int]) -> None:
    chosen = ("retry", "--status", "failed", *arguments)
    assert failed.json(*chosen, "--dry-run") == {"ids": ids, "count": len(ids), "dry_run": True}
    assert set(statuses(failed).values()) == {"failed"}
    assert failed.json(*chosen, "--yes") == {"ids": ids, "count": len(ids), "dry_run": False}
    assert [id for id, status in statuses(failed).items() if status == JobStatus.PENDING] == ids[::-1]


def test_a_retry_of_many_tells_which_and_that_there_may_be_more(failed: Shell) -> None:
    result = failed.run("retry", "--status", "failed", "--limit", 2, "--dry-run")
    assert result.out == "Would retry 2 jobs: 1, 2.\n"
    assert result.err == "There may be more: --limit takes up to 1,000 at a time.\n"
    assert failed.says("retry", "--status", "cancelled", "--yes") == "Retried 0 jobs.\n"
    failed.stack.admin.enqueue_jobs([NewJob(type="sync")] * 12)
    failed.run("cancel", *range(4, 16))
    assert failed.says("retry", "--status", "cancelled", "--yes") == (
        "Retried 12 jobs: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, …, 15.\n"
    )


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 3), (b"", 1, 3), (b"y\n", 0, 0)])
def test_who_sits_at_a_terminal_is_asked_first(failed: Shell, answer: bytes, code: int, left: int) -> None:
    result = failed.run("retry", "--status", "failed", typed=Terminal(answer))
    assert result.code == code
    assert result.err.startswith("Retry 3 jobs (1, 2, 3)? [y/N]:")
    assert list(statuses(failed).values()).count("failed") == left
    assert result.err.endswith("Error: Nothing was done, for nobody said yes.\n") == bool(code)


def test_where_nobody_can_be_asked_nothing_is_done_without_a_yes(failed: Shell) -> None:
    assert "Nobody can be asked here whether that is meant: say --yes." in failed.fails(
        2, "retry", "--status", "failed"
    )
    assert list(statuses(failed).values()).count("failed") == 3


def test_yes_asks_nobody(failed: Shell) -> None:
    assert failed.says("retry", "--status", "failed", "--yes", typed=Terminal()) == "Retried 3 jobs: 1, 2, 3.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Say which jobs: their ids, or --status failed, or --status cancelled."),
        (["--type", "email"], "Say which jobs: "),
        ([1, "--status", "failed"], "and not by both."),
        ([1, "--dry-run"], "and not by both."),
        (["--status", "failed", "--failed-after", "soon"], "or how long ago, such as 2h."),
        (["--status", "failed", "--failed-after", "90"], "or how long ago, such as 2h."),
        (["--status", "failed", "--failed-after", "9999999999d"], "'9999999999d' is no time such as "),
        (["--status", "failed", "--error-contains", ""], "is empty: give it a value or leave it out."),
        (["--status", "failed", "--type", " "], "is empty: give it a value or leave it out."),
    ],
)
def test_a_retry_has_to_say_of_what(failed: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in failed.fails(2, "retry", *arguments)
    assert set(statuses(failed).values()) == {"failed"}


def test_a_retry_of_many_whose_answer_is_lost_is_not_to_be_repeated_blindly(failed: Shell, wire: Wire) -> None:
    failed.url = wire.url
    wire.plan.extend([LOSE_ANSWER])
    assert failed.fails(75, "retry", "--status", "failed", "--yes").endswith(
        "It may have been done all the same, and a second run would retry others: look first.\n"
    )
    wire.plan.extend([LOSE_ANSWER])
    assert "look first" not in failed.fails(75, "retry", "--status", "failed", "--dry-run")
