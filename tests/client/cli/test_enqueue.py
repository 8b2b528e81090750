from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog_client import JobPriority

if TYPE_CHECKING:
    from tests.client.cli.support import Shell


def test_a_job_gets_what_the_options_say(shell: Shell) -> None:
    options = ("--priority", "HIGH", "--idempotency-key", "k", "--delay", "15m", "--max-retries", 5, "--backoff", "1m")
    told = shell.says("enqueue", "email", '{"to": "ada@example.com"}', *options)
    assert told.startswith("Job 1 is pending, due at ")
    job = shell.stack.admin.get(1)
    assert (job.type, job.payload, job.priority) == ("email", {"to": "ada@example.com"}, JobPriority.HIGH)
    assert (job.idempotency_key, job.max_retries, job.backoff_seconds) == ("k", 5, 60)
    assert job.run_at - job.created_at == timedelta(minutes=15)
    assert shell.says("enqueue", "email", '{"to": "ada@example.com"}', *options) == (
        "Job 1 was there already, and is pending.\n"
    )


@pytest.mark.parametrize("said", ["2026-02-01T13:00+01:00", "2026-02-01T12:00Z"])
def test_a_time_may_name_its_zone(shell: Shell, said: str) -> None:
    answer = shell.json("enqueue", "email", "--run-at", said)
    assert answer["job"]["run_at"] == "2026-02-01T12:00:00.000Z"
    assert answer["replayed"] is False


def test_a_time_without_a_zone_is_of_this_machine_s(shell: Shell) -> None:
    shell.says("enqueue", "email", "--run-at", "2026-02-01T12:00")
    assert shell.stack.admin.get(1).run_at == datetime(2026, 2, 1, 12).astimezone(UTC)


def test_two_enqueues_of_the_same_are_two_jobs(shell: Shell) -> None:
    assert [shell.says("enqueue", "email") for _ in range(2)] == ["Job 1 is pending.\n", "Job 2 is pending.\n"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Say which TYPE of job, or --from which file."),
        (["email", "{\n"], "PAYLOAD must be a JSON object: it is not JSON: "),
        (["email", '{"to": 1, "to": 2}'], "PAYLOAD must be a JSON object: it has to twice."),
        (["email", "[1]"], "payload must be a JSON object."),
        (["two words"], "type must match "),
        (["email", "--delay", "soon"], "'soon' is no time such as 90, 15m, 2h or 7d."),
        (["email", "--delay", "99999d"], "'99999d' is no time such as 90, 15m, 2h or 7d."),
        (["email", "--run-at", "2h"], "'2h' is no time such as 2026-01-31T12:00"),
        (["email", "--run-at", "noon"], "'noon' is no time such as 2026-01-31T12:00"),
        (["email", "--delay", "1", "--run-at", "2026-02-01T12:00Z"], "can't be given together with run_at."),
        (["email", "--series", "x"], "--series goes with --from"),
        (["email", "--from", "-"], "With --from the lines say what the jobs are"),
        (["--from", "-", "--delay", "1m"], "With --from the lines say what the jobs are"),
        (["--from", "/there/is/none"], "/there/is/none can't be read: No such file or directory."),
        (["--from", ""], "is empty: give it a value or leave it out."),
    ],
)
def test_a_wrong_argument_is_told_and_nothing_is_sent(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in shell.fails(2, "enqueue", *arguments)
    assert list(shell.stack.admin.iterate()) == []


def test_what_the_queue_refuses_is_told_in_a_sentence(shell: Shell) -> None:
    assert shell.fails(1, "enqueue", "fax") == "Error: type must be one of email, pdf, sync.\n"
    shell.role = "producer"
    assert shell.fails(1, "enqueue", "email", "--priority", "critical") == (
        "Error: You may not enqueue above the priority medium.\n"
    )
