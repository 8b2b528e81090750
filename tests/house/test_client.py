"""The client, which shares no code with the rest, says the same as the rest."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
import pytest

import queuelog
import queuelog.job
import queuelog_client
import queuelog_client.job
from queuelog import page
from queuelog_client import InternalError, QueueClient, QueuelogError, RequestRefused, errors, transport
from queuelog_client.cli import commands, lines
from queuelog_client.errors import BY_SLUG, error_of
from queuelog_client.testing import InMemoryQueue
from tests.house.drawing import bases_drawn
from tests.house.test_arrows import imports, modules
from tests.support import ROOT, run_python
from web.problems import GATEWAY_KINDS, KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = ROOT / "client"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
ALL_KINDS = {*KINDS.values(), *GATEWAY_KINDS}
#: Each level may import the levels before it, and nothing of its own or a later one.
LEVELS = [
    ["errors", "retries"],
    ["job", "verbs"],
    ["auth", "tasks"],
    ["transport", "shift"],
    ["client", "worker"],
    ["testing"],
    ["__init__"],
]


def test_every_problem_is_an_error_and_the_other_way_round() -> None:
    assert {kind.slug for kind in ALL_KINDS} == set(BY_SLUG)


@pytest.mark.parametrize("kind", sorted(ALL_KINDS), ids=lambda kind: str(kind.slug))
def test_an_error_is_named_as_what_was_raised_and_a_new_one_would_be_of_its_status(kind: Kind) -> None:
    error = error_of(
        kind.status, {"type": f"urn:queuelog:problem:{kind.slug}", "title": kind.title, "detail": "No."}, 2
    )
    raised = {cls.__name__ for cls, each in KINDS.items() if each is kind and issubclass(cls, queuelog.QueuelogError)}
    assert not raised or type(error).__name__ in raised
    assert (str(error), error.title, error.status, error.retry_after) == ("No.", kind.title, kind.status, 2)
    unknown = type(error_of(kind.status, {"type": "urn:queuelog:problem:brand-new"}))
    assert issubclass(unknown, RequestRefused) == isinstance(error, RequestRefused)
    assert isinstance(error, unknown) or (kind.status == 503 and unknown is InternalError)


@pytest.mark.parametrize("body", [None, [], "x", {"type": 5, "detail": {}, "title": 1, "errors": [5, {"field": 1}]}])
def test_an_answer_that_is_no_problem_is_an_error_of_its_status(body: object) -> None:
    assert [type(error_of(status, body)).__name__ for status in (302, 404, 418, 504)] == [
        "UnexpectedAnswer",
        "NotFound",
        "RequestRefused",
        "InternalError",
    ]


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = bases_drawn(errors.__doc__)
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, QueuelogError)]
    built = {each.__name__: None if each is QueuelogError else each.__bases__[0].__name__ for each in classes}
    assert drawn == built


LIMITS = [name for name in vars(queuelog_client.job) if re.match(r"(DEFAULT|MAX|TYPE)_", name)]


def test_the_limits_are_the_core_s() -> None:
    assert len(LIMITS) > 10
    assert {name: getattr(queuelog_client.job, name) for name in LIMITS} == {
        name: getattr(queuelog.job, name) for name in LIMITS
    }


@pytest.mark.parametrize("name", ["Attempt", "Beat", "Ending", "Heartbeat", "Job", "NewJob", "Stats"])
def test_what_is_sent_and_answered_has_the_core_s_fields(name: str) -> None:
    core, client = getattr(queuelog, name), getattr(queuelog_client, name)
    ours = [field.name for field in fields(client)]
    assert ours == [field.name for field in fields(core) if field.init] + (["attempts"] if name == "Job" else [])
    assert client.__dataclass_params__.frozen
    assert not hasattr(client, "__dict__") or "__slots__" in vars(client)


@pytest.mark.parametrize("name", ["JobPriority", "JobStatus", "Order"])
def test_words_are_the_core_s(name: str) -> None:
    core, client = getattr(queuelog, name), getattr(queuelog_client, name)
    assert {each.name: each.value for each in client} == {each.name: each.value for each in core}


VERBS = [
    name
    for name in vars(queuelog.BoundQueue)
    if not name.startswith("_") and name not in {"clock", "principal", "queue"}
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_what_the_core_s_takes(verb: str) -> None:
    def parameters(owner: type) -> dict[str, Any]:
        found = inspect.signature(getattr(owner, verb)).parameters
        return {name: (each.kind, each.default) for name, each in found.items()}

    core = parameters(queuelog.Queue)
    # Who calls, and when, is known on the way; worker_id is a check that only other callers of the API need.
    expected = {name: each for name, each in core.items() if name not in {"principal", "now", "worker_id"}}
    assert parameters(QueueClient) == expected
    assert parameters(InMemoryQueue) == expected


def test_the_public_door_is_sorted_and_complete() -> None:
    door = queuelog_client.__all__
    assert door == sorted(set(door))
    brought_in = {each.target.rpartition(".")[2] for each in imports(CLIENT / "queuelog_client/__init__.py")}
    assert set(door) == brought_in
    assert set(BY_SLUG.values()) <= {getattr(queuelog_client, name) for name in door}


#: What only some commands need, and only when they run: the core for files, boto3 for stacks.
LATE = {"boto3", "botocore", "queuelog"}


def test_it_imports_one_package_and_another_where_a_signature_is_asked_for() -> None:
    allowed = sys.stdlib_module_names | {"queuelog_client"}
    found = {name: path for name, path in modules(CLIENT).items() if not is_of_the_command_line(name)}
    used = {(name, each.top) for name, path in found.items() for each in imports(path) if each.top not in allowed}
    assert used == {("queuelog_client.transport", "urllib3"), ("queuelog_client.auth", "botocore")}
    assert [re.split(r"\W", each)[0] for each in PROJECT["dependencies"]] == ["click", "rich", "urllib3"]
    assert [re.split(r"\W", each)[0] for each in PROJECT["optional-dependencies"]["iam"]] == ["botocore"]


#: Which command does for people what a verb does for programs.
COMMANDS = {
    "enqueue": {"enqueue", "enqueue_jobs"},
    "jobs": {"list", "iterate"},
    "job": {"get", "attempts"},
    "explain": {"explain"},
    "cancel": {"cancel"},
    "retry": {"retry", "retry_jobs"},
    "stats": {"stats"},
    "work": {"claim", "claim_jobs", "complete", "fail", "finish_jobs", "heartbeat", "heartbeat_jobs", "release"},
}


def test_every_verb_has_a_command() -> None:
    assert set(COMMANDS) <= set(commands.commands)
    assert {verb for verbs in COMMANDS.values() for verb in verbs} == {*VERBS, "iterate"}


def test_every_command_is_a_row_of_the_readme() -> None:
    section = (CLIENT / "README.md").read_text().partition("\n## The command line\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `queuelog ([a-z]+)", section, re.MULTILINE)) == set(commands.commands)


def test_every_command_explains_itself_and_speaks_json() -> None:
    for name, command in leaves(commands):
        assert command.help, name
        assert ("as_json" in {each.name for each in command.params}) == (name != "completion"), name


def leaves(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group and of the groups in it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command)
        else:
            yield name, command


def test_a_line_of_a_file_has_the_fields_of_a_job() -> None:
    assert set(lines._FIELDS) == {field.name for field in fields(queuelog_client.NewJob)}


def test_a_batch_of_lines_is_one_that_the_queue_takes() -> None:
    assert lines._MOST_BYTES <= page.MAX_PAGE_BYTES
    assert lines._BYTES_OF_A_JOB >= page.JOB_BYTES_WITHOUT_PAYLOAD


def test_the_command_line_starts_with_click_alone() -> None:
    script = """
import sys
import queuelog_client
before = set(sys.modules)
import queuelog_client.cli
print(*sorted({name.partition(".")[0] for name in before | set(sys.modules)}))
print(*sorted({name.partition(".")[0] for name in before}))
"""
    after, before = (set(line.split()) for line in run_python(script).splitlines())
    assert "click" in after - before
    assert after.isdisjoint({"rich", *LATE})


def test_inside_the_client_imports_run_one_way() -> None:
    rank = {room: number for number, level in enumerate(LEVELS) for room in level}
    rooms = {
        name.removeprefix("queuelog_client."): path
        for name, path in modules(CLIENT).items()
        if not is_of_the_command_line(name)
    }
    assert set(rooms) == set(rank)
    wrong = {
        (room, target)
        for room, path in rooms.items()
        for each in imports(path)
        if each.top == "queuelog_client"
        and (target := each.target.split(".")[1]) != room
        and rank[target] >= rank[room]
    }
    assert wrong == set()


def is_of_the_command_line(name: str) -> bool:
    """Say whether it is a module on top of the library, which nothing of the library may import."""
    return name == "queuelog_client.__main__" or name.startswith("queuelog_client.cli.")


def test_it_says_its_version_and_which_pythons_it_needs() -> None:
    core = tomllib.loads((ROOT / "layers/queuelog/pyproject.toml").read_text())["project"]
    assert transport.VERSION == PROJECT["version"] == core["version"]
    assert PROJECT["requires-python"] == core["requires-python"]
    assert (CLIENT / "queuelog_client/py.typed").exists()
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
