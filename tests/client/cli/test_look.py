from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from queuelog_client import Ending, NewJob
from queuelog_client.cli import look, output, watch
from queuelog_client.cli.output import as_line, length, printable, show, table, when
from tests.client.support import LOSE_REQUEST, Wire
from tests.support import START, start_python

if TYPE_CHECKING:
    from tests.client.cli.support import Shell

#: A terminal would turn red at the first, clear at the second, and write backwards after the third.
EVIL = "\x1b[31mred \x9b2J \u202eback\u2028line\x7f"
HARMLESS = r"\x1b[31mred \x9b2J \u202eback\u2028line\x7f"


@pytest.fixture
def hundred(shell: Shell) -> Shell:
    """A queue with some jobs of each kind."""
    stack = shell.stack
    stack.producer.enqueue_jobs([NewJob(type="email", payload={"to": f"{n}@example.com"}) for n in range(100)])
    stack.admin.enqueue(NewJob(type="pdf", payload={"text": EVIL}, max_retries=0))
    return shell


def test_jobs_are_listed_the_newest_first(hundred: Shell) -> None:
    result = hundred.run("jobs", "--limit", 3)
    heading, first, second, _ = result.out.splitlines()
    assert heading.split() == ["id", "type", "priority", "status", "tries", "created", "about"]
    assert first.split()[:5] == ["101", "pdf", "medium", "pending", "0"]
    assert second.endswith('  {"to": "99@example.com"}')
    assert result.err == "There are more: --limit or --all shows them.\n"


def test_in_a_pipe_nothing_is_cut_and_nothing_is_coloured(shell: Shell) -> None:
    shell.stack.admin.enqueue(NewJob(type="email", payload={"text": "long " * 2_000}))
    told = shell.says("jobs")
    assert len(told.splitlines()) == 2
    assert "long " * 2_000 in told
    assert "\x1b" not in told


def test_what_a_terminal_would_obey_is_never_printed_raw(hundred: Shell) -> None:
    stack = hundred.stack
    (job,) = stack.worker.claim_jobs(types=["pdf"]).jobs
    stack.worker.finish_jobs([Ending(id=job.id, verb="fail", lease_token=job.lease_token, error=f"in {EVIL}")])
    for arguments in (["jobs"], ["jobs", "--all"], ["jobs", "--json"], ["job", 101], ["job", 101, "--json"]):
        told = hundred.run(*arguments).out
        assert told.replace("\n", "").isprintable()
        assert "back" in told
    assert HARMLESS.replace("\\x", "\\u00") in hundred.says("job", 101)
    assert json.loads(hundred.says("job", 101, "--json"))["payload"] == {"text": EVIL}


def test_escapes_stand_for_what_is_not_to_be_seen() -> None:
    assert printable(EVIL) == HARMLESS
    assert printable("žluťoučký 字 👍") == "žluťoučký 字 👍"
    assert json.loads(as_line({EVIL: EVIL, "é": "字\U000e0001"})) == {EVIL: EVIL, "é": "字\U000e0001"}
    assert as_line({EVIL: "字\U000e0001"}).isprintable()


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 20),
        (["--limit", 60], 60),
        (["--limit", 1_000], 101),
        (["--type", "pdf"], 1),
        (["--status", "running"], 0),
        (["--status", "pending", "--order", "queue", "--priority", "medium", "--limit", 5], 5),
    ],
)
def test_a_list_has_as_many_as_pass_and_were_asked_for(hundred: Shell, arguments: list[str], count: int) -> None:
    found = hundred.json("jobs", *arguments)
    assert len(found["jobs"]) == count
    assert found["more"] == (count in {5, 20, 60})


def test_all_jobs_are_lines_of_json_or_one_table(hundred: Shell) -> None:
    ids = [json.loads(line)["id"] for line in hundred.says("jobs", "--all", "--json").splitlines()]
    assert ids == list(range(101, 0, -1))
    assert len(hundred.says("jobs", "--all").splitlines()) == 102


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--watch", "--all"], "it doesn't go with --all."),
        (["--order", "queue"], "--order queue is for jobs that wait: say --status pending too."),
        (["--limit", "0"], "0 is not in the range x>=1."),
        (["--watch", "0"], "0.0 is not in the range x>=0.1."),
    ],
)
def test_a_list_has_to_be_one_that_there_is(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in shell.fails(2, "jobs", *arguments)


def test_a_list_of_nothing_says_so(shell: Shell) -> None:
    assert shell.says("jobs") == "There are no such jobs.\n"


def test_a_list_tells_what_matters_in_each_status(shell: Shell) -> None:
    admin, worker = shell.stack.admin, shell.stack.worker
    admin.enqueue_jobs([NewJob(type="email"), NewJob(type="pdf"), NewJob(type="sync", delay_seconds=60)])
    (email, pdf) = worker.claim_jobs(limit=2).jobs
    worker.fail(email.id, lease_token=email.lease_token, error="no such address", permanent=True)
    admin.cancel(pdf.id)
    about = [line.split("ago", 1)[-1].strip() for line in shell.says("jobs").splitlines()[1:]]
    assert about[0].startswith("due ")
    assert about[1:] == ["to be cancelled; held by worker", "no such address"]


@pytest.mark.parametrize(
    ("width", "type", "about"),
    [
        (80, ["email", "p" * 40], ["x" * 30 + "…", "y"]),
        (40, ["email", "p" * 19, "p" * 19, "pp"], ["x" * 11 + "…", "y"]),
    ],
)
def test_a_narrow_terminal_cuts_one_column_and_then_folds_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, type: list[str], about: list[str]
) -> None:
    monkeypatch.setattr(output, "console", lambda: Console(width=width))
    show(table(["id", "type", "about"], [["1", "email", "x" * 100], ["12345", "p" * 40, "y"]], cut="about"))
    lines = capsys.readouterr().out.splitlines()[1:]
    edge = 7 + len(type[1])
    assert [line[7:edge].strip() for line in lines] == type
    assert [line[edge:].strip() for line in lines][:2] == about


def test_a_narrow_terminal_gets_fewer_columns(hundred: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "console", lambda: Console(width=40))
    assert hundred.says("jobs", "--type", "pdf").splitlines()[0].split() == ["id", "type", "status", "about"]


def test_a_job_is_shown_with_all_that_the_caller_may_see(shell: Shell) -> None:
    stack = shell.stack
    stack.producer.enqueue(NewJob(type="email", payload={"to": "ada@example.com"}))
    (job,) = stack.worker.claim_jobs().jobs
    stack.clock.advance(seconds=90)
    stack.worker.fail(1, lease_token=job.lease_token, error="no such address")
    lines = shell.says("job", 1).splitlines()
    assert 'payload           {"to": "ada@example.com"}' in lines
    assert f"created_at        {START.astimezone().isoformat(' ', 'seconds')} (" in "\n".join(lines)
    assert lines[-2].split() == ["attempt", "outcome", "worker", "began", "took", "error"]
    assert re.fullmatch(r"1 +failed +worker +2026-.* 1 min +no such address", lines[-1])
    assert [each["outcome"] for each in shell.json("job", 1)["attempts"]] == ["failed"]
    shell.role = "producer"
    assert "attempt " not in shell.says("job", 1).splitlines()[-1]
    assert shell.json("job", 1)["attempts"] is None
    assert shell.fails(1, "job", 2) == "Error: There is no such job, or you may not see it.\n"


def test_a_job_is_explained(shell: Shell) -> None:
    shell.stack.admin.enqueue(NewJob(type="email", delay_seconds=60))
    assert shell.says("explain", 1) == ("Job 1 is pending.\nIt is due at 2026-01-31T12:01:00.000Z, as was asked.\n")
    assert shell.json("explain", 1)["reasons"][0]["code"] == "delayed"


def test_stats_are_a_table_and_sentences(shell: Shell) -> None:
    assert shell.says("stats").splitlines()[1:] == [
        "all         0        0          0       0          0",
        "",
        "No job is due.",
    ]
    stack = shell.stack
    stack.admin.enqueue_jobs([NewJob(type="email"), NewJob(type="email"), NewJob(type="pdf", delay_seconds=60)])
    stack.worker.claim_jobs()
    stack.clock.advance(seconds=30)
    heading, *rows, blank, waiting, held, oldest, following = shell.says("stats").splitlines()
    assert heading.split() == ["type", "pending", "running", "completed", "failed", "cancelled"]
    assert [row.split() for row in rows] == [
        ["email", "1", "1", "0", "0", "0"],
        ["pdf", "1", "0", "0", "0", "0"],
        ["all", "2", "1", "0", "0", "0"],
    ]
    assert (blank, waiting, held) == ("", "Pending by priority: medium 2", "Held: worker 1")
    assert oldest == "The oldest due job has waited for 30 s."
    assert following.startswith("The next one falls due ")
    told = shell.json("stats")
    assert told["running"] == {"worker": 1}
    assert {"status": "pending", "type": "pdf", "priority": "medium", "count": 1} in told["jobs"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "now"),
        (-0.9, "now"),
        (1, "in 1 s"),
        (-59, "59 s ago"),
        (-60, "1 min ago"),
        (7_300, "in 2 h"),
        (-9e5, "10 d ago"),
    ],
)
def test_times_are_told_in_one_unit(seconds: float, said: str) -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert when(now + timedelta(seconds=seconds), now) == said
    assert [length(seconds) for seconds in (0, 0.25, 1.9)] == ["0 s", "0.25 s", "1 s"]


class Patience:
    """Sleeps no time, and presses Ctrl-C instead of sleeping once more than it was told."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("arguments", "seconds"), [(["--watch"], 2.0), (["--watch", "0.5"], 0.5)])
def test_a_watch_prints_a_line_of_json_each_time_and_outlives_a_queue_that_is_away(
    shell: Shell, wire: Wire, monkeypatch: pytest.MonkeyPatch, arguments: list[str], seconds: float
) -> None:
    monkeypatch.setattr(watch, "sleep", patience := Patience(3))
    shell.url = wire.url
    wire.plan.extend([None, LOSE_REQUEST])
    result = shell.run("jobs", *arguments, "--json")
    assert result.code == 130
    assert [json.loads(line) for line in result.out.splitlines()] == [{"jobs": [], "more": False}] * 2
    assert result.err.startswith("No answer came from the queue")
    assert patience.slept == [seconds] * 3


def test_a_watch_in_a_pipe_prints_one_table_after_the_other(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "sleep", Patience(2))
    result = shell.run("stats", "--watch")
    assert (result.code, result.err) == (130, "")
    assert result.out.count("No job is due.") == 2
    assert result.out.count("every 2 s until Ctrl-C") == 2


def test_a_watch_ends_when_the_queue_refuses(shell: Shell) -> None:
    shell.role = "producer"
    assert shell.fails(1, "stats", "--watch") == "Error: This needs the role admin.\n"


def test_a_watch_on_a_terminal_draws_over_itself_until_ctrl_c(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stack.admin.enqueue(NewJob(type="pdf", payload={"text": EVIL}))
    monkeypatch.setenv("QUEUELOG_API_KEY", shell.stack.api.keys["admin"])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    ours, theirs = os.openpty()
    arguments = ("jobs", "--watch", "0.1", "--url", shell.stack.api.url)
    process = start_python("-m", "queuelog_client", *arguments, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while seen.count(b"until Ctrl-C") < 2:
        seen += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    # Linux says by an error that nobody has the other end open.
    with contextlib.suppress(OSError):
        while more := os.read(ours, 65_536):
            seen += more
    os.close(ours)
    assert process.wait() == 130
    text = seen.decode()
    assert "\x1b[2K" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "\x1b[31mred" not in text
    assert r"\u001b" in text
    assert "Traceback" not in text
