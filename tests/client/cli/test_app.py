"""What all commands have in common: the way in, errors, and the shell around them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from local.__main__ import WELCOME
from queuelog_client import NewJob
from queuelog_client.cli import watch
from queuelog_client.cli.settings import profiles_file
from tests.client.cli.support import queuelog
from tests.client.support import Told, Wire, problem
from tests.support import start_python

if TYPE_CHECKING:
    from tests.client.cli.support import Shell


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["jobs", "--stat"], "No such option"),
        (["job"], "Missing argument 'ID'."),
        (["job", "0"], "Invalid value for 'ID': "),
        (["job", "ada"], "Invalid value for 'ID': 'ada' is not a valid job id."),
        (["jobs", "--status", "done"], "Invalid value for '--status': 'done' is not one of "),
        (["jbos"], "No such command 'jbos'."),
        (["jobs", "--profile", "nowhere"], "There is no profile nowhere: "),
        (["--wrong"], "No such option"),
    ],
)
def test_a_wrong_argument_is_told_in_json_too(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert f"Error: {sentence}" in shell.fails(2, *arguments)
    told = json.loads(shell.fails(2, *arguments, "--json"))
    assert told["problem"] == "usage"
    assert sentence in told["error"]


@pytest.mark.parametrize("group", [(), ("keys",)])
def test_what_each_command_does_fits_on_a_line(group: tuple[str, ...]) -> None:
    told = queuelog(*group, "--help").out
    listed = told[told.index("Commands:") :].splitlines()[1:]
    assert len(listed) > 3
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_a_refusal_is_told_in_json_too(shell: Shell) -> None:
    assert json.loads(shell.fails(1, "job", 7, "--json")) == {
        "error": "There is no such job, or you may not see it.",
        "problem": "not-found",
    }


def test_what_the_queue_says_reaches_no_terminal_raw(shell: Shell, alone: Wire) -> None:
    shell.url = alone.url
    alone.plan.extend([Told(404, {**problem(404, "not-found"), "detail": "\x1b[31mred"})] * 2)
    assert shell.fails(1, "job", 7) == "Error: \\x1b[31mred\n"
    assert json.loads(shell.fails(1, "job", 7, "--json"))["error"] == "\x1b[31mred"


def test_a_queue_that_is_not_there_may_be_there_later(shell: Shell) -> None:
    shell.url = "http://127.0.0.1:1"
    told = shell.fails(75, "stats")
    assert told.startswith("Error: No answer came from the queue")
    assert told.endswith(" Is http://127.0.0.1:1 its address? queuelog doctor looks for what is wrong.\n")
    assert json.loads(shell.fails(75, "stats", "--json"))["problem"] is None


def write_profiles(text: str) -> None:
    profiles_file().parent.mkdir(exist_ok=True)
    profiles_file().write_text(text)


def test_a_profile_says_which_queue_and_as_whom(shell: Shell) -> None:
    api = shell.stack.api
    write_profiles(
        f'[here]\nurl = "{api.url}"\napi_key = "{api.keys["producer"]}"\n'
        f'[away]\nurl = "http://127.0.0.1:1"\napi_key = "{api.keys["admin"]}"\n'
    )
    assert shell.json("enqueue", "email", "--profile", "here")["job"]["created_by"] == "producer"
    # A name on the command line goes before the environment, and that before a name in the environment.
    shell.fails(75, "jobs", "--profile", "away")
    shell.environment = {"QUEUELOG_PROFILE": "away"}
    shell.says("stats")
    shell.environment = {"QUEUELOG_PROFILE": "here", "QUEUELOG_URL": "", "QUEUELOG_API_KEY": ""}
    assert shell.fails(1, "stats") == "Error: This needs the role admin.\n"
    assert len(shell.json("jobs")["jobs"]) == 1
    # An address may be another one's, with the profile's key.
    assert len(shell.json("jobs", "--profile", "away", "--url", api.url)["jobs"]) == 1


@pytest.mark.parametrize(
    ("profiles", "sentence"),
    [
        (None, "There is no profile mine: "),
        ("[other]\n", "there are: other."),
        ("", "there are: none."),
        ("[mine", "can't be read: "),
        ('[mine]\nurl = "https://x"\nkey = "ql_x"\n', "is wrong at key: it has url = "),
        ('[mine]\nurl = "https://x"\nauth = "password"\n', "is wrong at auth: it has url = "),
        ("[mine]\nurl = 5\n", "is wrong at url: it has url = "),
        ('[mine]\nurl = "https://x"\n', "Say who you are: "),
        ('[mine]\napi_key = "ql_x"\n', "Say which queue: "),
        (
            '[mine]\nurl = "http://example.com"\napi_key = "ql_x"\n',
            "Url must be https, since a key would cross the network in clear text.",
        ),
    ],
)
def test_it_is_told_what_is_wrong_with_a_profile(shell: Shell, profiles: str | None, sentence: str) -> None:
    if profiles is not None:
        write_profiles(profiles)
    told = shell.fails(2, "jobs", "--profile", "mine")
    assert sentence in told
    assert "ql_x" not in told
    assert len(told.splitlines()) == 1


def test_without_settings_it_is_told_which_are_missing(shell: Shell) -> None:
    shell.environment = {"QUEUELOG_URL": ""}
    assert shell.fails(2, "jobs") == "Error: Say which queue: set QUEUELOG_URL, or name a profile with --profile.\n"
    shell.environment = {"QUEUELOG_API_KEY": ""}
    assert "is empty: give it a value" in shell.fails(2, "jobs", "--url", "")
    assert shell.fails(2, "jobs") == "Error: Say who you are: set QUEUELOG_API_KEY, or sign with --iam.\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: Shell, name: str) -> None:
    script = shell.says("completion", name)
    assert f"_QUEUELOG_COMPLETE={name}_complete" in script
    assert "%(" not in script


def test_commands_options_and_profiles_are_completed(shell: Shell) -> None:
    write_profiles("[production]\n[playground]\n[test]\n")

    def completed(words: str) -> list[str]:
        shell.environment = {
            "_QUEUELOG_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        return [line.split(",")[1] for line in shell.says().splitlines() if line]

    assert completed("queuelog ex") == ["explain"]
    assert completed("queuelog retry --dr") == ["--dry-run"]
    assert completed("queuelog jobs --status comp") == ["completed"]
    assert completed("queuelog jobs --profile p") == ["production", "playground"]
    write_profiles("[broken")
    assert completed("queuelog jobs --profile p") == []


def test_whoever_reads_the_output_may_close_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stack.admin.enqueue_jobs([NewJob(type="email", payload={"text": "x" * 5_000})] * 30)
    monkeypatch.setenv("QUEUELOG_URL", shell.stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", shell.stack.api.keys["admin"])
    process = start_python("-m", "queuelog_client", "jobs", "--all", "--json", stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith('{"id": 30, ')
    process.stdout.close()
    _, errors = process.communicate()
    assert (process.returncode, errors) == (141, "")


def test_a_terminal_without_utf_8_is_told_as_much_as_it_can_show(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stack.admin.enqueue(NewJob(type="email", payload={"to": "žofie@example.com"}))
    monkeypatch.setenv("QUEUELOG_URL", shell.stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", shell.stack.api.keys["admin"])
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    output, _ = start_python("-m", "queuelog_client", "jobs").communicate()
    assert r'{"to": "\u017eofie@example.com"}' in output


def test_what_make_run_prints_can_be_pasted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "sleep", interrupt)
    lines = re.findall(r"^  \.venv/bin/queuelog (.*)$", WELCOME.format_map(defaultdict(str)), re.MULTILINE)
    assert [shell.run(*shlex.split(line)).code for line in lines] == [0, 130]


def interrupt(_: float) -> None:
    raise KeyboardInterrupt
