"""Jobs from a file or a pipe: whatever happens on the way, there is one job for each line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from queuelog_client import NewJob
from queuelog_client.cli import enqueue
from queuelog_client.cli.lines import BadLine, Line, as_they_come, batches, read_lines
from tests.client.support import LOSE_ANSWER, LOSE_REQUEST, Sent, Told, Wire
from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.cli.support import Shell
    from tests.client.support import Stack


def line(page: int, **more: Any) -> str:
    return json.dumps({"type": "sync", "payload": {"page": page}, **more})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(map(line, range(250))))
    return path


def pages(stack: Stack) -> list[int]:
    """Return the pages of all jobs, the first job first."""
    return [(job.payload or {})["page"] for job in stack.admin.iterate()][::-1]


def test_each_line_is_a_job_and_running_it_again_adds_none(shell: Shell, file: Path) -> None:
    assert shell.says("enqueue", "--from", file) == "Enqueued 250 jobs.\n"
    assert pages(shell.stack) == list(range(250))
    again = "Enqueued 0 jobs; 250 were there already (with --series they are enqueued once more).\n"
    assert shell.says("enqueue", "--from", file) == again
    assert shell.says("enqueue", "--from", "-", typed=file.read_bytes()) == again
    assert shell.json("enqueue", "--from", file, "--series", "2") == {
        "enqueued": 250,
        "replayed": 0,
        "bad": [],
        "stopped_before_line": None,
    }


def test_a_line_is_all_that_a_job_can_be(shell: Shell) -> None:
    said = {"priority": "low", "max_retries": 1, "idempotency_key": "k", "backoff_seconds": 5}
    when = {"run_at": "2026-02-01T12:00:00Z"}
    lines = "\r\n".join(["\ufeff" + line(1, **said, **when), "", line(2, delay_seconds=60), line(3, payload=None)])
    assert shell.says("enqueue", "--from", "-", typed=lines.encode()) == "Enqueued 3 jobs.\n"
    first = shell.json("job", 1)
    assert {name: first[name] for name in said} == said
    assert first["run_at"] == "2026-02-01T12:00:00.000Z"


def keys(*lines: str, series: str | None = None) -> list[str | None]:
    found = list(read_lines([each.encode() for each in lines], series=series))
    return [each.job.idempotency_key for each in found if isinstance(each, Line)]


def test_a_line_keeps_its_key_wherever_it_moves_to_and_however_it_is_written() -> None:
    first, second = keys(line(1, payload={"a": 1, "b": 2}, delay_seconds=5), line(2))
    moved = '{"delay_seconds": 5, "payload":{"b":2,"a":1},\t"type":"sync"}'
    assert keys(line(0), "", line(2), moved)[1:] == [second, first]


def test_equal_lines_are_two_jobs_and_a_changed_one_is_another() -> None:
    one, two, other = keys(line(1), line(1), line(2))
    assert len({one, two, other}) == 3
    assert keys(line(2), line(1), line(1)) == [other, one, two]
    assert keys(line(1), line(1, priority="low"))[1] not in {one, two, other}


def test_a_series_makes_other_keys_but_for_those_that_a_line_names() -> None:
    named = line(2, idempotency_key="mine")
    assert keys(line(1), named, series="a")[1] == keys(line(1), named)[1] == "mine"
    assert len({keys(line(1), series=series)[0] for series in (None, "a", "b")}) == 3


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"type": "a"\n', "it is not JSON: Expecting ',' delimiter at character 13"),
        (b'{"type', "it is not JSON: Unterminated string starting at character 2"),
        (b"\xff", "it is not UTF-8"),
        (b"[]", "it is not a JSON object"),
        (b"[" * 100_000, "it nests too deep"),
        (b"{}", "type must match "),
        (b'{"type": null}', "type must be a text"),
        (b'{"type": 5}', "type must be a text"),
        (b'{"type": "a", "type": "b"}', "it has type twice"),
        (b'{"type": "a", "payload": {"x": 1, "x": 1}}', "it has x twice"),
        (b'{"type": "a", "payload": {"x": NaN}}', "NaN is not JSON"),
        (b'{"type": "a", "payload": 5}', "payload must be a JSON object"),
        (b'{"type": "a", "max_retry": 5}', "a job has no field max_retry; its fields are type, payload, "),
        (b'{"type": "a", "max_retries": "5"}', "max_retries must be an integer between 0 and 25"),
        (b'{"type": "a", "priority": "urgent"}', "a priority is one of low, medium, high, critical"),
        (b'{"type": "a", "run_at": "noon"}', "run_at must be a time such as "),
        (b'{"type": "a", "run_at": "2026-02-01T12:00"}', "run_at must be a time with its zone"),
        (b'{"type": "a", "idempotency_key": ""}', "idempotency_key must be 1 to 255 printable characters"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_line_is_told_with_its_number(content: bytes, error: str) -> None:
    _, bad = read_lines([b"\n", b'{"type": "a"}\n', content], series=None)
    assert isinstance(bad, BadLine)
    assert bad.line == 3
    assert error in bad.error


def test_a_file_with_bad_lines_is_refused_as_a_whole(shell: Shell, file: Path) -> None:
    file.write_text("\n".join([line(1), "{", line(2), *["\x1b[31m"] * 30]))
    told = shell.fails(1, "enqueue", "--from", file).splitlines()
    assert told[0].startswith("line 2: it is not JSON")
    assert told[-2:] == [
        "and 11 lines more",
        "Error: 31 lines of 33 can't be enqueued, and so nothing was: correct the file, and run the command again.",
    ]
    assert len(told) == 22
    assert pages(shell.stack) == []


def test_bad_lines_of_a_pipe_are_passed_over(shell: Shell) -> None:
    result = shell.run("enqueue", "--from", "-", "--json", typed="\n".join([line(1), "{}", line(2)]).encode())
    assert result.code == 1
    told = json.loads(result.out)
    assert (told["enqueued"], [bad["line"] for bad in told["bad"]]) == (2, [2])
    assert json.loads(result.err)["error"].startswith("1 line could not be enqueued: ")
    assert pages(shell.stack) == [1, 2]


def test_lines_that_the_queue_refuses_are_told_and_the_others_enqueued(shell: Shell, file: Path) -> None:
    shell.role = "producer"
    shell.stack.producer.enqueue(NewJob(type="email", idempotency_key="used"))
    lines = [line(1), line(2, type="fax"), line(3, priority="high"), line(4, idempotency_key="used"), line(5)]
    file.write_text("\n".join(lines))
    told = shell.fails(1, "enqueue", "--from", file).splitlines()
    assert told[:3] == [
        "line 2: type must be one of email, pdf, sync",
        "line 3: priority You may not enqueue above the priority medium.",
        "line 4: idempotency_key was used for a different request",
    ]
    assert told[3].startswith("Error: 3 lines could not be enqueued: put that right, and run the command again;")
    # A corrected file goes on where it was.
    file.write_text("\n".join([*lines[:1], line(2), line(3), *lines[4:]]))
    assert shell.says("enqueue", "--from", file) == "Enqueued 2 jobs; 2 were there already.\n"


@pytest.mark.parametrize("loss", [LOSE_ANSWER, LOSE_REQUEST])
def test_a_queue_that_goes_away_is_told_with_where_it_stopped(shell: Shell, wire: Wire, file: Path, loss: str) -> None:
    shell.url = wire.url
    wire.plan.extend([None, loss])
    result = shell.run("enqueue", "--from", file)
    assert (result.code, result.out) == (75, "Enqueued 100 jobs.\n")
    assert result.err.startswith("Error: No answer came from the queue")
    assert result.err.endswith(
        "Stopped before line 101: run the same command with the same lines again, and it goes on there.\n"
    )
    assert shell.says("enqueue", "--from", file).startswith("Enqueued ")
    assert pages(shell.stack) == list(range(250))


def test_a_key_that_opens_nothing_stops_it_at_once(shell: Shell, file: Path) -> None:
    shell.role = "worker"
    told = shell.fails(1, "enqueue", "--from", file)
    assert "Stopped before line 1:" in told


def test_ctrl_c_tells_where_it_stopped(shell: Shell, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def come(_: int) -> Iterator[bytes]:
        yield from file.read_bytes().splitlines()[:150]
        raise KeyboardInterrupt

    monkeypatch.setattr(enqueue, "as_they_come", come)
    told = shell.fails(130, "enqueue", "--from", "-")
    assert told.startswith("Error: Stopped before line 101: ")
    assert pages(shell.stack) == list(range(100))


def test_what_a_slow_pipe_brings_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuelog_client.cli.lines.PAUSE", 0.01)
    reading, writing = os.pipe()
    sent = batches(read_lines(as_they_come(reading), series=None))

    def next_pages() -> list[int]:
        return [(each.job.payload or {})["page"] for each in next(sent)[0]]

    os.write(writing, f"{line(1)}\n{line(2)}\n{line(3)}"[:-5].encode())
    assert next_pages() == [1, 2]
    os.write(writing, f"{line(3)[-5:]}\n\n".encode())
    assert next_pages() == [3]
    os.write(writing, f"{{\n{line(4)}\n{line(5)}".encode())
    os.close(writing)
    good, bad = next(sent)
    assert ([each.number for each in good], [each.line for each in bad]) == ([6, 7], [5])
    assert list(sent) == []
    os.close(reading)


class Deadly(Wire):
    """Kills whoever sent the third request, once the queue has done what it asked."""

    victim: subprocess.Popen[str]

    def answer(self, sent: Sent) -> Told | None:
        told = super().answer(sent)
        if len(self.sent) == 3:
            self.victim.kill()
        return told


def test_a_run_that_is_killed_half_way_and_run_again_leaves_one_job_a_line(
    shell: Shell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("\n".join(map(line, range(450))))
    monkeypatch.setenv("QUEUELOG_API_KEY", shell.stack.api.keys["producer"])
    with Deadly(shell.stack.api.url) as wire:
        # It waits until its killer knows it.
        wire.victim = start_python(
            "-m", "queuelog_client", "enqueue", "--from", "-", "--url", wire.url, stdin=subprocess.PIPE
        )
        assert wire.victim.stdin is not None
        wire.victim.stdin.write(file.read_text())
        wire.victim.communicate()
    assert wire.victim.returncode == -signal.SIGKILL
    assert pages(shell.stack) == list(range(300))
    shell.role = "producer"
    assert shell.says("enqueue", "--from", file) == "Enqueued 150 jobs; 300 were there already.\n"
    assert pages(shell.stack) == list(range(450))


def test_a_batch_is_no_larger_than_the_queue_takes(shell: Shell) -> None:
    # Each quote is two bytes of the payload, and four once that is quoted again.
    large = [line(page, payload={"page": page, "text": '"' * 32_000}) for page in range(36)]
    sizes = [len(good) for good, _ in batches(read_lines([each.encode() for each in large], series=None))]
    assert len(sizes) > 1
    assert shell.says("enqueue", "--from", "-", typed="\n".join(large).encode()) == "Enqueued 36 jobs.\n"


def test_a_terminal_sees_how_far_it_is(shell: Shell, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_API_KEY", shell.stack.api.keys["admin"])
    ours, theirs = os.openpty()
    process = start_python(
        "-m", "queuelog_client", "enqueue", "--from", str(file), "--url", shell.stack.api.url, stderr=theirs
    )
    os.close(theirs)
    assert process.communicate()[0] == "Enqueued 250 jobs.\n"
    assert b"250/250" in os.read(ours, 65_536)
    os.close(ours)
