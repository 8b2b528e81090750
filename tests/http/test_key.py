from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

import authorize
from local.key import ATTEMPTS, MAX_SECRET_BYTES, create, main
from queuelog import InvalidRegistry, JobPriority, Role
from queuelog.registry import Registry, new_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_secretsmanager import SecretsManagerClient

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


class StoppedClock:
    def now(self) -> datetime:
        return NOW


class Account:
    """An AWS account with one stack, whose secret has no value yet."""

    def __init__(self) -> None:
        self.secrets_manager: SecretsManagerClient = boto3.client("secretsmanager")
        self.someone_else: SecretsManagerClient = boto3.client("secretsmanager")
        self.secret = self.secrets_manager.create_secret(Name="queue-registry")["ARN"]
        self.cloudformation: CloudFormationClient = boto3.client("cloudformation")
        # Moto's CloudFormation makes no secrets; the stub checks what is asked and answered against AWS's own model.
        self.stacks = Stubber(self.cloudformation)
        self.stacks.activate()

    def make(self, **settings: str) -> int:
        """Run `make key STACK=queue …` against this account."""
        detail = {
            "LogicalResourceId": "RegistrySecret",
            "PhysicalResourceId": self.secret,
            "ResourceType": "AWS::SecretsManager::Secret",
            "LastUpdatedTimestamp": NOW,
            "ResourceStatus": "CREATE_COMPLETE",
        }
        asked = {"StackName": "queue", "LogicalResourceId": "RegistrySecret"}
        self.stacks.add_response("describe_stack_resource", {"StackResourceDetail": detail}, asked)
        return self.run(STACK="queue", **settings)

    def run(self, **settings: str) -> int:
        session = cast("boto3.Session", SimpleNamespace(client=self._client))
        return main(settings, clock=StoppedClock(), session=session)

    def _client(self, name: str) -> Any:
        return {"cloudformation": self.cloudformation, "secretsmanager": self.secrets_manager}[name]

    def put(self, text: str) -> None:
        self.someone_else.put_secret_value(SecretId=self.secret, SecretString=text)

    def text(self) -> str:
        # Moto finds the current version by its label only when asked for the label.
        value = self.someone_else.get_secret_value(SecretId=self.secret, VersionStage="AWSCURRENT")
        return value["SecretString"]

    def names(self) -> list[str]:
        return [entry["name"] for entry in json.loads(self.text())["principals"]]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield Account()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def make(data_dir: Path, **settings: str) -> int:
    return main({"DATA_DIR": str(data_dir), **settings}, clock=StoppedClock())


def printed_key(capsys: pytest.CaptureFixture[str]) -> str:
    (key,) = [word for word in capsys.readouterr().out.split() if word.startswith("ql_")]
    return key


def read(data_dir: Path) -> Registry:
    return Registry.parse((data_dir / "principals.json").read_text())


def test_a_key_is_printed_once_with_its_entry_and_opens_the_local_registry(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(data_dir, NAME="billing", ROLES="producer,worker") == 0
    out, err = capsys.readouterr()
    assert err == ""
    (key,) = [word for word in out.split() if word.startswith("ql_")]
    assert out.count(key[12:]) == 1
    entry = json.loads(out[out.index("{") :])
    assert json.loads((data_dir / "principals.json").read_text()) == {"principals": [entry]}
    principal = read(data_dir).authenticate(key, NOW)
    assert principal is not None
    assert principal.name == "billing"
    assert principal.roles == {Role.PRODUCER, Role.WORKER}
    assert principal.types is None


def test_every_setting_reaches_the_entry(data_dir: Path) -> None:
    settings = {"TYPES": "pdf, email", "MAX_PRIORITY": "High", "EXPIRES": "2026-12-31T00:00:00+01:00"}
    assert make(data_dir, NAME="billing", ROLES=" producer ", **settings) == 0
    (entry,) = json.loads((data_dir / "principals.json").read_text())["principals"]
    assert entry["roles"] == ["producer"]
    assert entry["types"] == ["email", "pdf"]
    assert entry["max_priority"] == "high"
    assert entry["expires_at"] == "2026-12-30T23:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "span"),
    [("90d", timedelta(days=90)), ("12h", timedelta(hours=12)), ("30m", timedelta(minutes=30))],
)
def test_an_expiry_may_be_a_span_from_now(
    data_dir: Path, capsys: pytest.CaptureFixture[str], text: str, span: timedelta
) -> None:
    make(data_dir, NAME="billing", ROLES="producer", EXPIRES=text)
    key = printed_key(capsys)
    assert read(data_dir).authenticate(key, NOW + span - timedelta(milliseconds=1)) is not None
    assert read(data_dir).authenticate(key, NOW + span) is None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "NAME is missing, as in: make key NAME="),
        ({"NAME": "billing"}, "ROLES is missing"),
        ({"NAME": "", "ROLES": "producer"}, "NAME is empty"),
        ({"NAME": "a:b", "ROLES": "producer"}, "name must be 1 to 100 letters"),
        ({"NAME": "a" * 101, "ROLES": "producer"}, "name must be 1 to 100 letters"),
        ({"NAME": "billing", "ROLES": "boss"}, "one or more of producer, worker, admin"),
        ({"NAME": "billing", "ROLES": "producer,"}, "one or more of producer, worker, admin"),
        ({"NAME": "billing", "ROLES": "producer", "TYPES": ""}, "TYPES is empty: give it a value or leave it out."),
        ({"NAME": "billing", "ROLES": "producer", "TYPES": "a,,b"}, "types must be"),
        ({"NAME": "billing", "ROLES": "producer", "MAX_PRIORITY": "urgent"}, "low, medium, high, critical"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": " "}, "EXPIRES is empty"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "soon"}, "EXPIRES must be a number of days"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "90"}, "EXPIRES must be"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "-1d"}, "EXPIRES must be"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "999999d"}, "EXPIRES must be"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "2026-12-31"}, "a time with its zone"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "0001-01-01T00:00:00+01:00"}, "a time with its zone"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "0d"}, "in the past"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "2026-01-31T12:00:00Z"}, "in the past"),
        ({"NAME": "billing", "ROLES": "producer", "STACK": ""}, "STACK is empty"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_makes_nothing(
    data_dir: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, str], sentence: str
) -> None:
    assert make(data_dir, **settings) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not data_dir.exists()


def test_the_registry_is_readable_by_its_owner_alone_and_nothing_else_is_left(data_dir: Path) -> None:
    make(data_dir, NAME="billing", ROLES="producer")
    path = data_dir / "principals.json"
    path.chmod(0o644)
    make(data_dir, NAME="other", ROLES="producer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in data_dir.iterdir()) == ["principals.json", "principals.json.lock"]


def test_earlier_entries_and_fields_of_later_releases_stay(data_dir: Path) -> None:
    _, earlier = new_entry("earlier", ["worker"])
    data_dir.mkdir()
    (data_dir / "principals.json").write_text(json.dumps({"schema": 2, "principals": [{**earlier, "owner": "ann"}]}))
    make(data_dir, NAME="billing", ROLES="producer")
    document = json.loads((data_dir / "principals.json").read_text())
    assert document["schema"] == 2
    assert document["principals"][0] == {**earlier, "owner": "ann"}
    assert document["principals"][1]["name"] == "billing"


def test_a_second_key_of_one_name_works_beside_the_first_and_is_pointed_out(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(data_dir, NAME="billing", ROLES="producer")
    first = printed_key(capsys)
    make(data_dir, NAME="billing", ROLES="producer")
    out = capsys.readouterr().out
    assert "billing already had 1 key(s)" in out
    (second,) = [word for word in out.split() if word.startswith("ql_")]
    assert read(data_dir).authenticate(first, NOW) == read(data_dir).authenticate(second, NOW)


def test_a_malformed_registry_is_left_as_it_is(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir.mkdir()
    path = data_dir / "principals.json"
    for text in (b"{", b"\xff"):
        path.write_bytes(text)
        assert make(data_dir, NAME="billing", ROLES="producer") == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"No key was made: {path}")
        assert path.read_bytes() == text


def test_a_data_directory_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert make(tmp_path / "file", NAME="billing", ROLES="producer") == 1
    assert capsys.readouterr().err.startswith("No key was made: ")


def test_create_returns_a_key_that_opens_the_registry(data_dir: Path) -> None:
    path = data_dir / "principals.json"
    key = create(path, "nightly", [Role.WORKER], types=["email"], max_priority=JobPriority.LOW, expires_at=NOW)
    principal = Registry.parse(path.read_text()).authenticate(key, NOW - timedelta(seconds=1))
    assert principal is not None
    assert principal.types == frozenset({"email"})
    with pytest.raises(InvalidRegistry):
        create(path, "a/b", [Role.WORKER])


def test_keys_made_at_the_same_time_are_all_kept(data_dir: Path) -> None:
    path = data_dir / "principals.json"
    code = f"import pathlib, local.key; local.key.create(pathlib.Path({str(path)!r}), 'a', ['worker'])"
    command = [sys.executable, "-c", code]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(["layers/queuelog/python", "."])}
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, env=environ, check=True), range(4)))
    assert len(done) == 4
    assert len(read(data_dir).key_ids("a")) == 4


def test_the_module_runs_as_make_runs_it(data_dir: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(["layers/queuelog/python", "."]), "DATA_DIR": str(data_dir)}
    command = [sys.executable, "-W", "error", "-m", "local.key"]
    failed = subprocess.run(command, env={**environ, "NAME": "a"}, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    made = subprocess.run(
        command, env={**environ, "NAME": "a", "ROLES": "admin"}, capture_output=True, text=True, check=True
    )
    assert "ql_" in made.stdout
    assert read(data_dir).key_ids("a")


def test_the_first_key_of_a_stack_goes_into_its_secret_and_is_let_in(
    account: Account, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert account.make(NAME="admin", ROLES="admin") == 0
    key = printed_key(capsys)
    assert key[12:] not in account.text()
    monkeypatch.setenv("QUEUELOG_REGISTRY_SECRET", account.secret)
    event = {**json.loads(Path("events/authorize.json").read_text()), "authorizationToken": key}
    answer = authorize.handler(event, SimpleNamespace(aws_request_id="1", clock=StoppedClock()))
    assert answer["context"] == {"name": "admin", "roles": "admin", "max_priority": "critical"}


def test_a_stack_given_means_that_nothing_is_written_locally(account: Account, data_dir: Path) -> None:
    assert account.make(NAME="admin", ROLES="admin", DATA_DIR=str(data_dir)) == 0
    assert not data_dir.exists()


def test_further_keys_of_a_stack_join_those_that_are_there(account: Account) -> None:
    for name in ("admin", "billing", "nightly"):
        assert account.make(NAME=name, ROLES="worker") == 0
    assert account.names() == ["admin", "billing", "nightly"]


def test_a_key_that_someone_else_adds_meanwhile_is_not_lost(account: Account) -> None:
    account.make(NAME="first", ROLES="admin")
    rivals = [f"rival-{number}" for number in range(1, ATTEMPTS)]
    everyone = ["first", *rivals, "mine"]

    def write(**request: object) -> None:
        if rivals:
            _, entry = new_entry(rivals.pop(0), ["worker"])
            account.put(Registry.parse(account.text()).with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("after-call.secretsmanager.PutSecretValue", write)
    assert account.make(NAME="mine", ROLES="worker") == 0
    assert account.names() == everyone


def test_two_first_keys_at_the_same_time_are_both_kept(account: Account) -> None:
    rivals = ["rival"]

    def write(**request: object) -> None:
        if rivals:
            _, entry = new_entry(rivals.pop(), ["worker"])
            account.put(Registry.parse("").with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("before-call.secretsmanager.PutSecretValue", write)
    assert account.make(NAME="mine", ROLES="worker") == 0
    assert account.names() == ["rival", "mine"]


def test_a_secret_that_never_rests_is_given_up(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.make(NAME="first", ROLES="admin")
    rivals: list[str] = []

    def write(**request: object) -> None:
        rivals.append("rival")
        _, entry = new_entry("rival", ["worker"])
        account.put(Registry.parse(account.text()).with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("before-call.secretsmanager.UpdateSecretVersionStage", write)
    capsys.readouterr()
    assert account.make(NAME="mine", ROLES="worker") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "others kept changing the registry" in err
    assert len(rivals) == ATTEMPTS
    assert "mine" not in account.names()


def test_a_malformed_secret_is_left_as_it_is(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.put('{"principals": [7]}')
    assert account.make(NAME="mine", ROLES="worker") == 1
    assert "principals[0] is wrong" in capsys.readouterr().err
    assert account.text() == '{"principals": [7]}'


def test_a_binary_secret_is_added_to_and_not_replaced(account: Account) -> None:
    _, entry = new_entry("earlier", ["worker"])
    text = Registry.parse("").with_entry(entry).dump()
    account.secrets_manager.put_secret_value(SecretId=account.secret, SecretBinary=text.encode())
    assert account.make(NAME="mine", ROLES="worker") == 0
    assert account.names() == ["earlier", "mine"]


def test_a_registry_too_large_for_a_secret_is_refused(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.put(json.dumps({"principals": [], "note": "n" * (MAX_SECRET_BYTES - 100)}))
    assert account.make(NAME="mine", ROLES="worker") == 1
    assert f"{MAX_SECRET_BYTES} bytes" in capsys.readouterr().err


def test_a_stack_that_is_not_there_is_one_sentence(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.stacks.add_client_error("describe_stack_resource", "ValidationError", "Stack 'nope' does not exist")
    assert account.run(STACK="nope", NAME="mine", ROLES="worker") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("No key was made for the stack nope: ")
    assert "Stack 'nope' does not exist" in err
    assert err.count("\n") == 1


def test_an_aws_account_that_is_not_configured_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    assert main({"STACK": "queue", "NAME": "mine", "ROLES": "worker"}, clock=StoppedClock()) == 1
    assert "You must specify a region" in capsys.readouterr().err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert main({"STACK": "queue", "NAME": "mine", "ROLES": "worker"}, clock=StoppedClock()) == 1
    assert "The config profile (nobody) could not be found" in capsys.readouterr().err
