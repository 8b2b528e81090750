from __future__ import annotations

import email
import json
import signal
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from queuelog import Queue, Store
from queuelog_client import JobStatus, NewJob
from tests.support import producer, start_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.cli.support import Shell

TASKS = """
from queuelog_client import Permanent, Tasks

tasks = Tasks()

@tasks.task("email")
def send(job):
    return "sent"

@tasks.task("pdf")
def render(job):
    raise Permanent("no font")
"""
WORKER = """
import os
from queuelog_client import QueueClient, Worker

worker = Worker(QueueClient(os.environ["THEIR_URL"], api_key=os.environ["THEIR_KEY"]), types=["email"], max_wait=1)

@worker.task("email")
def send(job):
    worker.stop()

@worker.task("pdf")
def render(job):
    return None
"""


@pytest.fixture
def jobs(shell: Shell) -> Shell:
    """A worker's shell, with two emails and a pdf to do."""
    shell.stack.admin.enqueue_jobs([NewJob(type="email"), NewJob(type="email"), NewJob(type="pdf")])
    shell.role = "worker"
    return shell


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    return path


def test_the_tasks_of_a_file_are_done_and_counted(jobs: Shell, tmp_path: Path) -> None:
    file = write(tmp_path / "chores_of_a_file.py", TASKS)
    assert jobs.says("work", file, "--until-empty", "--concurrency", 2) == (
        "claimed 3, completed 2, failed 1, released 0, lost 0\n"
    )
    found = [jobs.stack.admin.get(id) for id in (1, 2, 3)]
    assert [(job.status.value, job.result, job.error) for job in found] == [
        ("completed", "sent", None),
        ("completed", "sent", None),
        ("failed", None, "no font"),
    ]
    assert jobs.json("work", f"{file}:tasks", "--until-empty", "--lease-seconds", 5, "--grace", 1) == {
        "claimed": 0,
        "completed": 0,
        "failed": 0,
        "released": 0,
        "lost": 0,
    }


def test_a_module_is_found_from_here_and_types_are_chosen(
    jobs: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package_of_chores").mkdir()
    write(tmp_path / "package_of_chores/by_post.py", TASKS)
    monkeypatch.chdir(tmp_path)
    assert jobs.json("work", "package_of_chores.by_post", "--types", "pdf", "--until-empty")["claimed"] == 1


def test_a_file_may_be_called_as_a_module_of_python_s_is(jobs: Shell, tmp_path: Path) -> None:
    file = write(tmp_path / "email.py", TASKS)
    assert jobs.json("work", file, "--until-empty")["completed"] == 2
    assert sys.modules["email"] is email


def test_a_worker_brings_its_queue_and_settings(jobs: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_URL", jobs.stack.api.url)
    monkeypatch.setenv("THEIR_KEY", jobs.stack.api.keys["worker"])
    jobs.environment = {"QUEUELOG_URL": "", "QUEUELOG_API_KEY": ""}
    # Without --until-empty it ends because its own handler stops it.
    assert jobs.json("work", write(tmp_path / "own_worker.py", WORKER), "--concurrency", 2)["completed"] == 2
    assert jobs.stack.admin.get(3).status is JobStatus.PENDING


def test_options_say_otherwise_for_a_worker(jobs: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("THEIR_KEY", "ql_other")
    file = write(tmp_path / "other_worker.py", WORKER)
    where = ("--url", jobs.stack.api.url)
    assert jobs.json("work", file, *where, "--types", "pdf", "--until-empty")["completed"] == 1
    # It is still the module's own, which its handler stops.
    assert jobs.json("work", file, *where)["completed"] == 2


@pytest.mark.parametrize(
    ("text", "name", "code", "sentence"),
    [
        ("", "", 2, "{file} has no Tasks and no Worker."),
        ("", ":tasks", 2, "{file} has no Tasks or Worker tasks; it has: none."),
        ("from queuelog_client import *\na, b = Tasks(), Tasks()", "", 2, "say which: {file}:a, {file}:b."),
        (
            "from queuelog_client import *\na = Tasks()\nc = Worker(None, a)\nb = a",
            "",
            2,
            "In {file} there are no tasks.",
        ),
        (TASKS, " --types email,fax", 2, "In {file} there is no task for fax."),
        (TASKS, " --types ,", 2, "',' has a comma too many."),
        (
            "import there_is_none",
            "",
            1,
            "{file} can't be imported: ModuleNotFoundError: No module named 'there_is_none'",
        ),
        ("\n1 / 0", "", 1, "ZeroDivisionError: division by zero ({file}, line 2)."),
        ("1 +", "", 1, "{file} can't be imported: SyntaxError: "),
    ],
)
def test_it_is_told_what_is_wrong_with_a_module(
    shell: Shell, tmp_path: Path, text: str, name: str, code: int, sentence: str
) -> None:
    file = write(tmp_path / "wrong_chores.py", text)
    assert sentence.replace("{file}", str(file)) in shell.fails(code, "work", *f"{file}{name}".split())


@pytest.mark.parametrize(
    ("module", "sentence"),
    [("nowhere.at_all", "There is no module nowhere here"), ("no/such.py", "There is no Python file no/such.py.")],
)
def test_it_is_told_that_a_module_is_missing(shell: Shell, module: str, sentence: str) -> None:
    assert sentence in shell.fails(2, "work", module)


def test_of_several_tasks_a_name_chooses_and_what_they_print_is_no_json(jobs: Shell, tmp_path: Path) -> None:
    file = write(tmp_path / "two_chores.py", f"{TASKS}\nother = Tasks({{'pdf': print}})")
    result = jobs.run("work", f"{file}:other", "--until-empty", "--json")
    assert json.loads(result.out)["claimed"] == 1


def test_a_key_that_may_not_claim_ends_it(jobs: Shell, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs.role = "producer"
    told = jobs.fails(1, "work", write(tmp_path / "chores_of_nobody.py", TASKS))
    assert told == "Error: This needs the role admin or worker.\n"
    assert "again" not in caplog.text


def test_a_queue_without_an_api_that_lets_nobody_claim_ends_it_with_a_sentence(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "queue.db")
    theirs = ModuleType("their_queue")
    theirs.queue = Queue(store).bound(producer())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_queue", theirs)
    text = """
    from queuelog_client import Worker
    from their_queue import queue
    worker = Worker(queue)
    worker.task("email")(print)
    """
    file = write(tmp_path / "chores_of_the_core.py", text)
    assert shell.fails(1, "work", file) == "Error: This needs the role admin or worker.\n"
    told = json.loads(shell.fails(1, "work", file, "--json"))
    assert told == {"error": "This needs the role admin or worker.", "problem": None}
    store.close()


def test_a_worker_whose_threads_are_all_lost_ends_with_an_error(jobs: Shell, tmp_path: Path) -> None:
    text = """
    import threading
    from queuelog_client import Tasks
    tasks = Tasks()
    tasks.add("email", lambda job: threading.Event().wait(2), max_seconds=0.01)
    """
    told = jobs.fails(1, "work", write(tmp_path / "endless_chores.py", text), "--concurrency", 1)
    assert told == "Error: All 1 threads are lost to jobs that went on after their deadline.\n"


def test_sigterm_lets_it_give_back_what_it_has_and_count(
    jobs: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    import logging
    from queuelog_client import Tasks
    tasks = Tasks()

    @tasks.task("email")
    def wait(job):
        logging.getLogger("chores").warning("to \\x1b[31mred\\nand on")
        print("began", flush=True)
        job.cancelled.wait()
        job.raise_if_cancelled()
    """
    file = write(tmp_path / "long_chores.py", text)
    monkeypatch.setenv("QUEUELOG_URL", jobs.stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", jobs.stack.api.keys["worker"])
    options = ("--grace", "0.1", "--concurrency", "1")
    process = start_python("-m", "queuelog_client", "work", str(file), *options, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    process.send_signal(signal.SIGTERM)
    output, log = process.communicate()
    assert (process.returncode, output) == (0, "claimed 1, completed 0, failed 0, released 1, lost 0\n")
    assert "WARNING chores: to \\x1b[31mred\nand on\n" in log
    assert "INFO queuelog_client: working on email, 1 at a time\n" in log
    assert "INFO queuelog_client: stopping: 1 jobs have 0.1 seconds\n" in log
    assert {job.status for job in jobs.stack.admin.iterate()} == {JobStatus.PENDING}
