"""`make demo`: what it shows adds up, it says so when something doesn't, and it leaves nothing behind."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rich.console import Console

from local.demo import stage
from local.demo.account import Outcome, Seen, settle
from local.demo.crew import Crew, Death, WorkersFailedError
from local.demo.notes import Note, NoteReader, NoteWriter, Word
from local.demo.plan import TYPES, Fate, planned
from local.demo.view import WIDTH, Result, Scene, View, report
from queuelog_client import Ending, Enqueued, JobPriority, JobStatus
from queuelog_client.testing import InMemoryQueue
from tests.house.template import source
from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.demo.account import Account
    from local.demo.plan import Planned
    from queuelog_client import Attempt, Job

COUNT = 20


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its directory."""
    monkeypatch.setenv("JOBS", str(COUNT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def start_demo() -> subprocess.Popen[str]:
    return start_python("-m", "local.demo", stderr=subprocess.STDOUT)


def table(told: str, heading: str) -> dict[str, list[int]]:
    """Return the numbers of a table up to its totals, by the words before each row; an empty cell is 0."""
    lines = [line for line in told.splitlines() if "─" not in line]
    head = next(line for line in lines if line.startswith(f" {heading} "))
    # Numbers end where their heading does.
    ends = [14, *(match.end() for match in re.finditer(r"\S+(?: \S+)*", head[: head.index("total") + 5]))]
    ends.remove(len(heading) + 1)
    found = {}
    for line in lines[lines.index(head) + 1 :]:
        if not line.startswith(" "):
            break
        cells = [line[start:end].strip() or "0" for start, end in pairwise(ends)]
        found[line[: ends[0]].strip()] = [int(cell) for cell in cells]
    return found


def test_a_run_adds_up_line_by_line_and_leaves_nothing_behind(place: Path) -> None:
    demo = start_demo()
    told, _ = demo.communicate(timeout=120)
    assert told.endswith(f"It adds up: {COUNT} jobs enqueued, each ended once and as planned, none lost.\n")
    assert demo.returncode == 0
    assert list(place.iterdir()) == []
    # As a pipe wants it: nothing that a terminal would obey, and no line that would not fit in one.
    assert re.findall(r"[^\x20-\x7e\n─]", told) == []
    assert max(map(len, told.splitlines())) <= WIDTH

    jobs = table(told, "Jobs")
    priorities = [jobs.pop(priority.label) for priority in JobPriority]
    assert list(map(sum, zip(*priorities, strict=True))) == jobs["total"] == jobs["planned"]
    assert jobs["total"][-1] == sum(jobs["total"][:-1]) == COUNT
    attempts = table(told, "Attempts")
    total = attempts.pop("total")
    assert list(map(sum, zip(*attempts.values(), strict=True))) == total
    assert all(sum(row[:-1]) == row[-1] for row in attempts.values())
    assert attempts["completed"] == [jobs["total"][0], 0, 0, 0, 0, jobs["total"][0]]
    assert attempts["lease expired"][-1] > 0
    # Each death was told when it came. Here one can come before the next.
    died = {
        death: len(re.findall(rf" s  worker [12] {re.escape(death)} ", told)) for death in (Death.KILLED, Death.CRASHED)
    }
    assert died[Death.CRASHED] > 0
    for death, count in died.items():
        assert sum(map(int, re.findall(rf"^Workers .*?\b(\d+) {re.escape(death)}", told, re.MULTILINE))) == count


def test_a_second_ctrl_c_changes_nothing_and_neither_leaves_a_process_or_a_file(place: Path) -> None:
    demo = start_demo()
    workers: set[int] = set()
    while len(workers) < 2:
        assert demo.poll() is None
        time.sleep(0.02)
        workers |= {note.pid for file in place.glob("*/notes.txt") for note in NoteReader(file).read()}
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGINT)
    told, _ = demo.communicate(timeout=60)
    assert told.endswith("Stopped. Nothing is left behind.\n")
    assert demo.returncode == stage.STOPPED
    assert list(place.iterdir()) == []
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_ends_with_the_demo_however_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("QUEUELOG_API_KEY", "ql_key_in_the_tests")
    notes = tmp_path / "notes.txt"
    worker = start_python("-m", "local.demo.worker", str(notes), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    # As when its other end goes with the process that had it.
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 1
    assert "Traceback" not in errors


def test_workers_that_cannot_even_start_are_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(WorkersFailedError, match=r"exit code 1\..*No module named"),
        Crew("", {1: ""}, tmp_path) as crew,
    ):
        while True:
            crew.tend()
            time.sleep(0.01)
    assert crew.pids == {}


def test_a_number_of_jobs_that_it_cannot_show_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOBS", "19")
    assert stage.run(threading.Event()) == 1
    assert capsys.readouterr().err == "JOBS must be a number from 20 to 1000, and is '19'.\n"


def test_the_plan_has_every_type_of_the_template_every_priority_and_every_fate() -> None:
    plan = planned(200)
    assert sorted(TYPES) == source()["Parameters"]["JobTypes"]["Default"].split(",")
    assert {each.job.type for each in plan} == set(TYPES)
    assert {each.job.priority for each in plan} == set(JobPriority)
    assert {each.fate for each in plan} == set(Fate)
    assert len({each.key for each in plan}) == 200
    assert planned(200) == plan


class Played(NamedTuple):
    """What is left of a demo."""

    plan: list[Planned]
    repeated: list[Enqueued]
    jobs: list[Job]
    notes: list[Note]

    def settle(self) -> Account:
        return settle(*self)


def play() -> Played:
    """Play a demo in memory, with one worker, in which every kind of thing happens."""
    plan = planned(COUNT)
    queue = InMemoryQueue()
    queue.enqueue_jobs([each.job for each in plan])
    repeated = [queue.enqueue(plan[0].job)]
    notes: list[Note] = []
    while (job := queue.claim(lease_seconds=1)) is not None:
        notes.append(Note(Word.BEGAN, job.id, job.attempt, pid=1))
        word, ending = end(job)
        if word is not None:
            notes.append(Note(word, job.id, job.attempt, pid=1))
        if job.payload is not None and job.payload["fate"] == Fate.GOES_ON:
            queue.cancel(job.id)
        if ending is not None:
            queue.finish_jobs([ending])
        queue.clock.advance(seconds=1)
    return Played(plan, repeated, [queue.get(each.id) for each in queue.iterate()], notes)


def end(job: Job) -> tuple[Word | None, Ending | None]:
    """Return what a worker notes of a job, and what it tells the queue."""
    assert job.payload is not None
    match Fate(job.payload["fate"]):
        case Fate.FAILS_FOR_GOOD:
            return Word.RAISED, Ending(id=job.id, lease_token=job.lease_token, verb="fail", permanent=True)
        case Fate.FAILS:
            return Word.RAISED, Ending(id=job.id, lease_token=job.lease_token, verb="fail")
        case Fate.CRASHES:
            return None, None
        case Fate.GOES_ON:
            return Word.STOPPED, Ending(id=job.id, lease_token=job.lease_token, verb="release")
        case Fate.CRASHES_AT_FIRST if job.attempt == 1:
            # It got further than it could tell.
            return Word.DID, None
        case _:
            return Word.DID, Ending(id=job.id, lease_token=job.lease_token, verb="complete")


def test_the_account_says_how_each_attempt_ended_by_the_queue_and_by_the_worker() -> None:
    account = play().settle()
    assert account.faults == ()
    assert account.jobs.total() == account.planned.total() == COUNT
    assert account.attempts == {
        (Outcome.COMPLETED, Seen.DID): 16,
        (Outcome.FAILED, Seen.RAISED): 4,
        (Outcome.LEASE_EXPIRED, Seen.CUT_OFF): 2,
        (Outcome.LEASE_EXPIRED, Seen.DID): 1,
        (Outcome.CANCELLED, Seen.STOPPED): 1,
    }
    # The more urgent, the sooner.
    waits = [account.waits[priority] for priority in sorted(account.waits, reverse=True)]
    assert waits == sorted(waits)


def completed(played: Played) -> Job:
    return next(job for job in played.jobs if job.status is JobStatus.COMPLETED and job.attempt == 1)


def change(played: Played, **fields: object) -> None:
    """Let a job that was completed at once be another one than it was."""
    job = completed(played)
    played.jobs[played.jobs.index(job)] = replace(job, **fields)  # type: ignore[arg-type]


def first_attempt(played: Played) -> Attempt:
    (attempt,) = completed(played).attempts or ()
    return attempt


def complete_again(played: Played) -> None:
    once = first_attempt(played)
    played.notes.extend(Note(word, completed(played).id, 2, pid=2) for word in (Word.BEGAN, Word.DID))
    change(played, attempt=2, attempts=(once, replace(once, attempt=2)))


def forget_the_end(played: Played) -> None:
    job = completed(played)
    played.notes.remove(Note(Word.DID, job.id, 1, pid=1))


PLANTED: dict[str, tuple[Callable[[Played], object], str]] = {
    "a job that is lost": (lambda played: played.jobs.pop(), r"The job demo-\d+ is lost\."),
    "a job that is there twice": (
        lambda played: played.jobs.append(replace(completed(played), id=999, attempt=0, attempts=())),
        r"The job demo-\d+ is there 2 times\.",
    ),
    "a job that nobody enqueued": (lambda played: change(played, idempotency_key="other"), "Nobody has enqueued job"),
    "a repeat that made another job": (
        lambda played: played.repeated.append(Enqueued(replace(played.jobs[0], id=999), replayed=True)),
        r"To enqueue demo-\d+ again made job 999\.",
    ),
    "a repeat that was taken for new": (
        lambda played: played.repeated.append(Enqueued(played.jobs[0], replayed=False)),
        r"To enqueue demo-\d+ again made job \d+\.",
    ),
    "a job that has not ended": (
        lambda played: change(played, status=JobStatus.RUNNING),
        "has not ended: it is running",
    ),
    "a job that ended in another way": (
        lambda played: change(played, status=JobStatus.FAILED),
        "should be completed in the end, and is failed",
    ),
    "a job that ended twice": (complete_again, r"has ended twice: completed, completed\."),
    "an attempt that is not in the history": (lambda played: change(played, attempt=2), r"has the attempts \[1\]"),
    "a job whose history ends otherwise": (
        lambda played: change(played, attempts=(replace(first_attempt(played), outcome="released"),)),
        "is completed, and its attempts are: released",
    ),
    "a completed job that nobody did": (forget_the_end, "is completed, and its worker's notes say: cut off"),
    "an attempt that the queue knows nothing of": (
        lambda played: played.notes.append(Note(Word.BEGAN, 1, 99, pid=1)),
        "The queue knows nothing of attempt 99 of job 1",
    ),
    "an attempt that two workers had": (
        lambda played: played.notes.append(played.notes[0]._replace(pid=2)),
        r"attempt 1 of job \d+ was begun twice",
    ),
    "an attempt that was done twice": (
        lambda played: played.notes.append(next(note for note in played.notes if note.word is Word.DID)),
        "ended .did. while it was not running",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_it_does_not_add_up_with(planted: str) -> None:
    played = play()
    plant, fault = PLANTED[planted]
    plant(played)
    account = played.settle()
    assert re.search(fault, "\n".join(account.faults))
    screen = io.StringIO()
    assert report(Console(file=screen, width=WIDTH), Result(account, Counter({Death.KILLED: 1}), 1, 1.0)) is False
    assert "It does not add up:" in screen.getvalue()
    assert "It adds up" not in screen.getvalue()


def test_a_line_of_the_notes_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    NoteWriter(path).write(Word.BEGAN, 7, 1)
    reader = NoteReader(path)
    whole = Note(Word.BEGAN, 7, 1, os.getpid())
    with path.open("a") as file:
        file.write("did 7 ")
        file.flush()
        assert reader.read() == [whole]
        file.write("1 5\n")
    assert reader.read() == [Note(Word.DID, 7, 1, 5)]
    assert reader.read() == []
    assert reader.notes == [whole, Note(Word.DID, 7, 1, 5)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_how_things_stand_and_gets_its_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    jobs = Counter({(JobPriority.HIGH, JobStatus.COMPLETED): 3, (JobPriority.HIGH, JobStatus.PENDING): 2})
    with View(terminal) as view:
        view.say("worker 1 killed (-9) in the middle of job " + "9" * 200)
        view.show(Scene(total=5, jobs=jobs, workers={1: [17, 23], 2: []}))
    shown = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.getvalue())
    for words in (
        "5 jobs, 2 workers",
        "3/5",
        "pending   2",
        "worker 1  jobs 17, 23",
        "worker 2  no job",
        "killed (-9)",
    ):
        assert words in shown
    assert max(map(len, re.split(r"[\r\n]+", shown))) <= WIDTH
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")
