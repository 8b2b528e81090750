"""The function that the schedule calls: what it works on, what it says, and by which door it comes."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import tasks
import work
from queuelog_client import Beat, Ending, Forbidden, JobStatus, NewJob, QueueClient, RunningJob, Tasks
from queuelog_client.auth import Signature
from queuelog_client.verbs import WorkQueue
from tests.house.template import source
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support import Stack, Wire

EVENT = json.loads((ROOT / "events/work.json").read_text())
EMPTY = {"claimed": 0, "completed": 0, "failed": 0, "released": 0, "lost": 0}


def template(logical_id: str) -> Any:
    """Return what the template says of a resource; the translated one takes a second to make."""
    return source()["Resources"][logical_id]["Properties"]


def context(seconds: float = 300) -> Any:
    return SimpleNamespace(aws_request_id="tick", get_remaining_time_in_millis=lambda: int(seconds * 1_000))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    earlier = work.logger.registered_handler.setStream(stream)  # type: ignore[attr-defined]
    monkeypatch.setattr(work.metrics.provider, "namespace", "Queuelog")
    yield stream
    work.logger.registered_handler.setStream(earlier)  # type: ignore[attr-defined]


@pytest.fixture
def account(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """What the template tells the function, for a local API, with handlers that need nothing else."""
    for name, value in {
        "QUEUELOG_URL": stack.api.url,
        "QUEUELOG_API_KEY": stack.api.keys["worker"],
        "QUEUELOG_WORKER_TYPES": "",
        "QUEUELOG_WORKER_CONCURRENCY": "2",
    }.items():
        monkeypatch.setenv(name, value)
    found = Tasks()
    found.add("email", lambda _: "sent", max_seconds=30)
    found.add("pdf", _fail, max_seconds=60)
    monkeypatch.setattr(work, "FOUND", tasks.Found(found, {"sync": ["QUEUELOG_WEBHOOK_TARGETS"]}))
    return stack


def sent_metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the function's metrics; those of the API's functions, in the same process, are others."""
    return [each for each in map(json.loads, capsys.readouterr().out.splitlines()) if each.get("verb") == "work"]


def _fail(_: RunningJob) -> None:
    raise ValueError("boom")


def test_it_works_until_nothing_is_due_and_says_how_much_it_did(
    account: Stack, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    account.producer.enqueue_jobs([NewJob(type="email")] * 3)
    account.producer.enqueue(NewJob(type="email", delay_seconds=60))
    account.producer.enqueue(NewJob(type="sync"))
    account.producer.enqueue(NewJob(type="pdf", max_retries=0))
    tally = {**EMPTY, "claimed": 4, "completed": 3, "failed": 1}
    assert work.handler(EVENT, context()) == tally
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (line,) = [each for each in lines if each["message"] == "work"]
    assert {name: line[name] for name in ("request_id", *tally)} == {"request_id": "tick", **tally}
    # What the client logs is JSON in the same log.
    assert any("failed in attempt 1" in each["message"] for each in lines)
    (metrics,) = sent_metrics(capsys)
    assert (metrics["verb"], metrics["JobsCompleted"], metrics["JobsFailed"]) == ("work", [3], [1])
    assert "JobsReleased" not in metrics
    assert [job.status for job in account.admin.iterate()].count(JobStatus.PENDING) == 2


def test_a_call_that_finds_nothing_sends_no_metric(
    account: Stack, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    assert work.handler(EVENT, context()) == EMPTY
    assert sent_metrics(capsys) == []
    assert log.getvalue().count("\n") == 1


def test_it_leaves_no_thread_behind(account: Stack, log: io.StringIO) -> None:
    account.producer.enqueue_jobs([NewJob(type="email")] * 3)
    before = set(threading.enumerate())
    work.handler(EVENT, context())
    assert [each.name for each in set(threading.enumerate()) - before if each.name.startswith("queuelog-")] == []


def test_it_works_on_the_types_that_it_is_told(
    account: Stack, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.producer.enqueue_jobs([NewJob(type="email"), NewJob(type="pdf")])
    monkeypatch.setenv("QUEUELOG_WORKER_TYPES", "email")
    assert work.handler(EVENT, context())["claimed"] == 1


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ("email,sync", "WorkerTypes has sync, which needs QUEUELOG_WEBHOOK_TARGETS to be set"),
        ("fax", "WorkerTypes has fax, for which functions/tasks has no task"),
    ],
)
def test_types_that_it_can_t_do_are_an_error_with_a_sentence(
    account: Stack, monkeypatch: pytest.MonkeyPatch, types: str, sentence: str
) -> None:
    monkeypatch.setenv("QUEUELOG_WORKER_TYPES", types)
    with pytest.raises(ValueError, match=sentence):
        work.handler(EVENT, context())


def test_a_task_that_may_take_longer_than_a_call_is_an_error_with_a_sentence(account: Stack) -> None:
    work.FOUND.tasks.add("resize", print, max_seconds=286)
    sentence = "A job of the type resize may take 286 seconds, which are too many for a call of 295: "
    with pytest.raises(ValueError, match=sentence):
        work.handler(EVENT, context())


def test_without_any_task_that_can_work_it_says_so(account: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FOUND", tasks.Found(Tasks(), {}))
    with pytest.raises(ValueError, match="no task of functions/tasks has the variables that it needs"):
        work.handler(EVENT, context())


def test_a_queue_that_refuses_it_is_an_error_of_the_function(account: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_API_KEY", account.api.keys["producer"])
    with pytest.raises(Forbidden):
        work.handler(EVENT, context())


def test_in_an_account_it_signs_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_URL", "https://abc123.execute-api.eu-central-1.amazonaws.com/v1")
    monkeypatch.delenv("QUEUELOG_API_KEY", raising=False)
    with work._client() as client:
        assert isinstance(client._transport._auth, Signature)
        assert client._transport._auth._region == "eu-central-1"


def test_its_role_may_ask_what_a_worker_asks_and_nothing_else(account: Stack, wire: Wire) -> None:
    account.producer.enqueue_jobs([NewJob(type="email")] * 2)
    verbs = {name for name in vars(WorkQueue) if not name.startswith("_")}
    assert verbs == {"claim_jobs", "heartbeat_jobs", "finish_jobs"}
    with QueueClient(wire.url, api_key=account.api.keys["worker"]) as client:
        one, other = client.claim_jobs(limit=2).jobs
        client.heartbeat_jobs([Beat(id=one.id, lease_token=str(one.lease_token))])
        client.finish_jobs(
            [
                Ending(id=one.id, verb="complete", lease_token=str(one.lease_token)),
                Ending(id=other.id, verb="release", lease_token=str(other.lease_token)),
            ]
        )
    asked = {f"{sent.method}/iam{sent.path}" for sent in wire.sent}
    (statement, _) = template("WorkPolicy")["PolicyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    assert {each["Fn::Sub"].partition("/v1/")[2] for each in statement["Resource"]} == asked


def test_the_local_api_has_no_worker_by_itself(stack: Stack) -> None:
    assert "WorkFunction" not in stack.api._functions._handlers
    assert "SweepFunction" in stack.api._functions._handlers


def test_every_module_of_tasks_is_found_with_its_types_and_says_what_it_needs() -> None:
    modules = {path.stem for path in Path(tasks.__path__[0]).glob("*.py") if not path.stem.startswith("_")}
    assert modules == {"email", "pdf", "sync"}
    nowhere = tasks.find({})
    assert (list(nowhere.tasks), set(nowhere.missing)) == ([], modules)
    needed = {name for names in nowhere.missing.values() for name in names}
    everywhere = tasks.find(dict.fromkeys(needed, "x"))
    assert (set(everywhere.tasks), everywhere.missing) == (modules, {})
    set_by_the_template = set(template("WorkFunction")["Environment"]["Variables"])
    assert needed <= set_by_the_template


def test_a_job_that_is_claimed_late_still_has_all_its_time() -> None:
    found = tasks.find(dict.fromkeys(["QUEUELOG_EMAIL_FROM", "QUEUELOG_DOCUMENT_BUCKET"], "x")).tasks
    longest = max(found[type].max_seconds for type in found)
    timeout = template("WorkFunction")["Timeout"]
    # More than half of a call is for claims.
    assert longest + work.FAREWELL + work.MARGIN < timeout / 2
