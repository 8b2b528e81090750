"""The README's code does what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import queuelog_client
from queuelog_client import JobStatus, NewJob
from tests.support import ROOT

if TYPE_CHECKING:
    import pytest

    from tests.client.support import Stack

README = (ROOT / "client/README.md").read_text()
ENQUEUE, WORK, TESTING = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_producer_of_the_readme_enqueues(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUEUELOG_URL", stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", stack.api.keys["producer"])
    exec(ENQUEUE, {})
    assert capsys.readouterr().out.splitlines()[-1] == "pending"
    assert len(list(stack.admin.iterate())) == 102


def test_the_worker_of_the_readme_works(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_URL", stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", stack.api.keys["worker"])
    payloads: list[dict[str, Any]] = [{"to": "ada@example.com"}, {"to": "ada"}, {"to": "bob@example.com", "busy": True}]
    stack.producer.enqueue_jobs([NewJob(type="email", payload=each) for each in payloads])
    assert WORK.endswith("worker.run()\n")
    exec(WORK.replace("worker.run()", "worker.run(until_empty=True)"), {})
    jobs = [stack.admin.get(id) for id in (1, 2, 3)]
    assert [job.status for job in jobs] == [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.PENDING]
    assert [job.error for job in jobs] == [None, "no such address", "the mail server is busy"]


def test_the_test_of_the_readme_passes() -> None:
    names: dict[str, Any] = {}
    exec(TESTING, names)
    names["test_a_welcome_is_sent_in_the_end"]()


def test_what_the_readme_names_is_there() -> None:
    for name in re.findall(r"`(?:raise )?([A-Z][A-Za-z]+)\b", README):
        assert hasattr(queuelog_client, name) or name in {"InMemoryQueue", "Queue", "Retry", "ValueError"}, name
