"""Each function answers its event of events/ in a new container, through `sam local invoke`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import boto3
import pytest

from local.data import DataDirectory
from queuelog_client.cli.backups import restore
from tests.containers.support import BUCKET
from tests.house.template import source
from tests.http.support import EVENTS, Answer, assert_documented
from tests.http.test_events import STATUS
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.containers.support import Invocation, Lab

FUNCTIONS = {
    str(each["Properties"]["Handler"]).removesuffix(".handler"): name
    for name, each in source()["Resources"].items()
    if each["Type"] == "AWS::Serverless::Function"
}


@pytest.fixture(scope="module")
def cold_starts(report: list[str]) -> Iterator[dict[str, Invocation]]:
    """Fill this with each function's first call; it becomes a table."""
    seen: dict[str, Invocation] = {}
    yield seen
    report += [
        "",
        "Cold starts here in milliseconds, as Lambda's emulator measures them, with no limit to the processor:",
        "*init* is the start of Python and the imports; the *first call* opens the file, too.",
        "",
        "| function | init | first call |",
        "|---|---|---|",
        *(
            f"| `{name}` | {seen[name].init_milliseconds:.0f} | {seen[name].call_milliseconds:.0f} |"
            for name in FUNCTIONS
            if name in seen
        ),
    ]


@pytest.fixture
def call(lab: Lab, tmp_path: Path, cold_starts: dict[str, Invocation]) -> Callable[..., Invocation]:
    """Call a function with its event, over a queue that is empty at the first call."""

    def call(name: str, event: Path | None = None, **settings: str) -> Invocation:
        invocation = lab.invoke(FUNCTIONS[name], event or ROOT / f"events/{name}.json", tmp_path / "data", **settings)
        cold_starts.setdefault(name, invocation)
        return invocation

    return call


def test_every_function_has_its_test_here() -> None:
    assert set(FUNCTIONS) == {*STATUS, "authorize", "back_up", "sweep", "work"}


@pytest.mark.parametrize("name", STATUS)
def test_a_route_answers_its_event(call: Callable[..., Invocation], name: str) -> None:
    invocation = call(name)
    answer = Answer(invocation.answer, EVENTS[name]["requestContext"]["path"])
    assert answer.status == STATUS[name], invocation.log
    assert_documented(name, answer)


def test_the_authoriser_knows_the_keys_of_the_data_directory_and_no_other(
    call: Callable[..., Invocation], tmp_path: Path
) -> None:
    def effect(event: Path | None = None) -> str:
        (statement,) = call("authorize", event).answer["policyDocument"]["Statement"]
        return str(statement["Effect"])

    assert effect() == "Deny"
    event = json.loads((ROOT / "events/authorize.json").read_text())
    event["authorizationToken"] = json.loads((tmp_path / "data/keys.json").read_text())["worker"]
    (tmp_path / "known.json").write_text(json.dumps(event))
    assert effect(tmp_path / "known.json") == "Allow"


def test_the_sweep_sweeps(call: Callable[..., Invocation]) -> None:
    assert call("sweep").answer == {"leases_expired": 0, "jobs_deleted": 0, "is_done": True}


def test_the_backup_makes_a_copy_that_can_be_restored(
    call: Callable[..., Invocation], s3: dict[str, str], tmp_path: Path
) -> None:
    assert call("enqueue_job").answer["statusCode"] == 201
    made = call("back_up", **s3).answer
    assert list(made) == ["key", "bytes", "sha256"]
    target = DataDirectory(tmp_path / "restored").database
    assert restore(f"s3://{BUCKET}/{made['key']}", target, boto3.client).jobs == 1
