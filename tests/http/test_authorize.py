from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

import authorize
from queuelog import InvalidRegistry, JobPriority, Principal, Role
from queuelog.job import TYPE_PATTERN
from queuelog.registry import NAME_PATTERN, Registry, new_entry
from tests.support import steps_of
from web.principals import principal_of
from web.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from logging import StreamHandler

    from mypy_boto3_secretsmanager import SecretsManagerClient

EVENT: dict[str, Any] = json.loads(Path("events/authorize.json").read_text())
KEY: str = EVENT["authorizationToken"]
STAGE = "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3d4e5/v1/*"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


class SteppedClock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def step(self, **span: float) -> None:
        self.time += timedelta(**span)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def registry_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "principals.json"
    monkeypatch.delenv("QUEUELOG_REGISTRY_SECRET", raising=False)
    monkeypatch.setenv("QUEUELOG_REGISTRY_FILE", str(path))
    return path


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = cast("StreamHandler[Any]", authorize.logger.registered_handler)
    earlier = handler.setStream(stream)
    yield stream
    handler.setStream(earlier)


@pytest.fixture
def secrets_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretsManagerClient]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield boto3.client("secretsmanager")


@pytest.fixture
def secret(secrets_manager: SecretsManagerClient, monkeypatch: pytest.MonkeyPatch) -> str:
    """A secret as the stack makes it: without a value."""
    arn = secrets_manager.create_secret(Name="registry")["ARN"]
    monkeypatch.delenv("QUEUELOG_REGISTRY_FILE", raising=False)
    monkeypatch.setenv("QUEUELOG_REGISTRY_SECRET", arn)
    return arn


def entry_of(key: str = KEY, **fields: Any) -> dict[str, Any]:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"name": "billing", "key_id": key[3:11], "key_sha256": digest, "roles": ["producer"], **fields}


def registry_of(*entries: dict[str, Any]) -> str:
    return json.dumps({"principals": entries})


def ask(clock: SteppedClock, key: object = KEY, **event: Any) -> dict[str, Any]:
    context = SimpleNamespace(aws_request_id="11111111-2222-3333-4444-555555555555", clock=clock)
    return authorize.handler({**EVENT, "authorizationToken": key, **event}, context)


def effect_of(answer: dict[str, Any]) -> str:
    (statement,) = answer["policyDocument"]["Statement"]
    return str(statement["Effect"])


def is_allowed(clock: SteppedClock, key: object = KEY) -> bool:
    return effect_of(ask(clock, key)) == "Allow"


def test_a_known_key_is_allowed_on_the_whole_stage(clock: SteppedClock, registry_file: Path) -> None:
    registry_file.write_text(registry_of(entry_of()))
    assert ask(clock) == {
        "principalId": "billing",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": STAGE}],
        },
        "context": {"name": "billing", "roles": "producer", "max_priority": "medium"},
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"roles": ["worker", "producer"]}, {"roles": "producer,worker", "max_priority": "medium"}),
        ({"roles": ["admin"]}, {"roles": "admin", "max_priority": "critical"}),
        ({"max_priority": "low"}, {"roles": "producer", "max_priority": "low"}),
        ({"types": ["pdf", "email"]}, {"roles": "producer", "max_priority": "medium", "types": '["email", "pdf"]'}),
        ({"types": []}, {"roles": "producer", "max_priority": "medium", "types": "[]"}),
    ],
)
def test_the_context_is_text_since_api_gateway_passes_nothing_else_on(
    clock: SteppedClock, registry_file: Path, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    registry_file.write_text(registry_of(entry_of(**fields)))
    assert ask(clock)["context"] == {"name": "billing", **expected}


@pytest.mark.parametrize(
    ("method_arn", "resource"),
    [
        (
            "arn:aws-us-gov:execute-api:us-gov-west-1:1:abc/v1/GET/",
            "arn:aws-us-gov:execute-api:us-gov-west-1:1:abc/v1/*",
        ),
        (
            "arn:aws:execute-api:eu-west-1:1:abc/test-invoke-stage/GET/jobs/7",
            "arn:aws:execute-api:eu-west-1:1:abc/test-invoke-stage/*",
        ),
    ],
)
def test_the_policy_keeps_the_partition_and_the_stage(
    clock: SteppedClock, registry_file: Path, method_arn: str, resource: str
) -> None:
    registry_file.write_text(registry_of(entry_of()))
    (statement,) = ask(clock, methodArn=method_arn)["policyDocument"]["Statement"]
    assert statement["Resource"] == resource


@pytest.mark.parametrize("key", ["", None, "None", 7, KEY[:-1], KEY + " ", "ql_unknown0_" + "A" * 43, KEY[:-1] + "x"])
def test_an_unknown_or_malformed_key_is_denied(clock: SteppedClock, registry_file: Path, key: object) -> None:
    registry_file.write_text(registry_of(entry_of()))
    assert ask(clock, key) == {
        "principalId": "unknown",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{"Action": "execute-api:Invoke", "Effect": "Deny", "Resource": "*"}],
        },
    }


def test_an_event_without_a_token_is_denied(clock: SteppedClock, registry_file: Path) -> None:
    registry_file.write_text(registry_of(entry_of()))
    context = SimpleNamespace(aws_request_id="1", clock=clock)
    assert effect_of(authorize.handler({"type": "TOKEN", "methodArn": EVENT["methodArn"]}, context)) == "Deny"


def test_a_key_is_denied_from_the_millisecond_at_which_it_expires(clock: SteppedClock, registry_file: Path) -> None:
    registry_file.write_text(registry_of(entry_of(expires_at="2026-01-31T12:00:00.500Z")))
    clock.step(milliseconds=499)
    assert is_allowed(clock)
    clock.step(milliseconds=1)
    assert not is_allowed(clock)


def test_the_system_clock_tells_the_time_where_lambda_gives_no_other(registry_file: Path) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    key, entry = new_entry("billing", ["producer"], expires_at=tomorrow)
    registry_file.write_text(registry_of(entry))
    context = SimpleNamespace(aws_request_id="1")
    assert effect_of(authorize.handler({**EVENT, "authorizationToken": key}, context)) == "Allow"


def test_a_key_in_the_file_works_at_once_and_stops_at_once(clock: SteppedClock, registry_file: Path) -> None:
    assert not is_allowed(clock)
    registry_file.write_text(registry_of(entry_of()))
    assert is_allowed(clock)
    registry_file.write_text(registry_of())
    assert not is_allowed(clock)


def test_a_secret_without_a_value_lets_nobody_in_until_a_key_is_put_there(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str
) -> None:
    assert not is_allowed(clock)
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of()))
    clock.step(seconds=60)
    assert is_allowed(clock)


def test_a_binary_secret_is_read_as_text(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str
) -> None:
    secrets_manager.put_secret_value(SecretId=secret, SecretBinary=registry_of(entry_of()).encode())
    assert is_allowed(clock)


def test_a_key_revoked_in_the_secret_is_denied_after_60_seconds(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str
) -> None:
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of()))
    assert is_allowed(clock)
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of())
    clock.step(seconds=59, milliseconds=999)
    assert is_allowed(clock)
    clock.step(milliseconds=1)
    assert not is_allowed(clock)


def test_a_secret_that_cannot_be_read_is_served_stale_for_five_minutes(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str, log: io.StringIO
) -> None:
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of()))
    assert is_allowed(clock)
    secrets_manager.delete_secret(SecretId=secret)
    clock.step(minutes=4, seconds=59, milliseconds=999)
    assert is_allowed(clock)
    assert not is_allowed(clock, KEY[:-1] + "x")
    assert "InvalidRequestException" in log.getvalue()
    clock.step(milliseconds=1)
    with pytest.raises(InvalidRegistry, match="five minutes"):
        ask(clock)


def test_a_secret_that_can_be_read_again_is_used_within_five_seconds(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str
) -> None:
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of()))
    secrets_manager.delete_secret(SecretId=secret)
    with pytest.raises(InvalidRegistry):
        ask(clock)
    secrets_manager.restore_secret(SecretId=secret)
    clock.step(seconds=5)
    assert is_allowed(clock)


def test_a_secret_that_becomes_malformed_is_served_stale_and_logged_without_its_contents(
    clock: SteppedClock, secrets_manager: SecretsManagerClient, secret: str, log: io.StringIO
) -> None:
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of()))
    assert is_allowed(clock)
    secrets_manager.put_secret_value(SecretId=secret, SecretString=registry_of(entry_of(key_sha256=KEY)))
    clock.step(minutes=1)
    assert is_allowed(clock)
    (error,) = [line for line in map(json.loads, log.getvalue().splitlines()) if line["level"] == "ERROR"]
    assert error["message"] == authorize.NOT_READ
    assert "principals[0] is wrong: key_sha256 must be the SHA-256" in error["reason"]
    assert error["last_read_at"] == "2026-01-31T12:00:00.000Z"
    assert KEY not in log.getvalue()
    clock.step(minutes=4)
    with pytest.raises(InvalidRegistry):
        ask(clock)


@pytest.mark.usefixtures("secrets_manager")
def test_without_any_registry_to_read_callers_are_told_that_it_is_not_their_key(
    clock: SteppedClock, registry_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry_file.write_text("not JSON")
    with pytest.raises(InvalidRegistry):
        ask(clock)
    registry_file.unlink()
    registry_file.mkdir()
    with pytest.raises(InvalidRegistry):
        ask(clock)
    monkeypatch.delenv("QUEUELOG_REGISTRY_FILE")
    with pytest.raises(InvalidRegistry, match="QUEUELOG_REGISTRY_SECRET"):
        ask(clock)


def test_a_registry_is_read_once_a_minute_and_after_a_failure_once_in_five_seconds(clock: SteppedClock) -> None:
    reads: list[datetime] = []
    is_down = False

    def read() -> str:
        reads.append(clock.now())
        if is_down:
            raise OSError("down")
        return registry_of(entry_of())

    registry = authorize.CachedRegistry(read, timedelta(seconds=60))
    for _ in range(120):
        registry.at(clock.now())
        clock.step(seconds=1)
    assert reads == [START, START + timedelta(seconds=60)]
    is_down = True
    reads.clear()
    for _ in range(20):
        registry.at(clock.now())
        clock.step(seconds=1)
    assert reads == [START + timedelta(seconds=seconds) for seconds in (120, 125, 130, 135)]


def test_a_clock_that_is_set_back_does_not_keep_a_registry_fresh(clock: SteppedClock) -> None:
    texts = [registry_of(), registry_of(entry_of())]
    registry = authorize.CachedRegistry(texts.pop, timedelta(seconds=60))
    assert KEY[3:11] in registry.at(clock.now())
    clock.step(hours=-1)
    assert KEY[3:11] not in registry.at(clock.now())


def test_an_answer_is_logged_with_the_name_and_the_id_of_the_key(
    clock: SteppedClock, registry_file: Path, log: io.StringIO
) -> None:
    registry_file.write_text(registry_of(entry_of()))
    ask(clock)
    ask(clock, KEY[:-1] + "x")
    ask(clock, "Bearer " + KEY)
    fields = ("outcome", "principal", "key_id", "request_id")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [tuple(line.get(field) for field in fields) for line in lines] == [
        ("allowed", "billing", "example1", "11111111-2222-3333-4444-555555555555"),
        ("denied", None, "example1", "11111111-2222-3333-4444-555555555555"),
        ("denied", None, None, "11111111-2222-3333-4444-555555555555"),
    ]


HANDLE_THREE_KEYS = """
import json, sys
from types import SimpleNamespace
import authorize
event = json.load(open("events/authorize.json"))
for key in (event["authorizationToken"], "ql_unknown0_" + "z" * 43, "Bearer " + "z" * 43):
    try:
        print(authorize.handler({**event, "authorizationToken": key}, SimpleNamespace(aws_request_id="1")))
    except Exception:
        import traceback
        traceback.print_exc()
"""


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("QUEUELOG_", "AWS_"))}
    path = os.pathsep.join(["layers/queuelog/python", "functions"])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("registry", [registry_of(entry_of()), registry_of(entry_of(key_sha256=KEY)), KEY])
def test_no_key_appears_in_anything_that_is_printed_or_logged(registry_file: Path, registry: str) -> None:
    registry_file.write_text(registry)
    logging_all = {"POWERTOOLS_LOGGER_LOG_EVENT": "true", "POWERTOOLS_LOG_LEVEL": "DEBUG"}
    done = run(HANDLE_THREE_KEYS, QUEUELOG_REGISTRY_FILE=str(registry_file), **logging_all)
    printed = done.stdout + done.stderr
    assert '"level"' in printed
    assert KEY[12:] not in printed
    assert "z" * 43 not in printed


def test_importing_reads_neither_the_environment_nor_the_registry(registry_file: Path) -> None:
    registry_file.write_text(registry_of(entry_of()))
    code = f"import authorize, os; os.environ['QUEUELOG_REGISTRY_FILE'] = {str(registry_file)!r}\n{HANDLE_THREE_KEYS}"
    done = run(code, QUEUELOG_REGISTRY_FILE="/nonexistent/principals.json")
    assert done.stdout.count("'Allow'") == 1
    assert done.stdout.count("'Deny'") == 2
    # With neither a region nor credentials, making an AWS client would raise.
    run(
        "import authorize",
        QUEUELOG_REGISTRY_SECRET="arn:aws:secretsmanager:eu-central-1:123456789012:secret:registry-AbCdEf",
    )


def test_a_secrets_manager_that_does_not_answer_is_given_up_and_logged(
    clock: SteppedClock, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    # Port 9 is reserved for a service that nobody runs any more.
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:9")
    monkeypatch.setenv("QUEUELOG_REGISTRY_SECRET", "unreachable")
    with pytest.raises(InvalidRegistry):
        ask(clock)
    assert "Could not connect to the endpoint URL" in log.getvalue()


@pytest.fixture(scope="module")
def many_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A registry of every kind of principal, and its keys."""
    registry = Registry.parse("")
    keys = []
    for number, role in enumerate(["producer", "worker", "admin"]):
        key, entry = new_entry(f"principal-{number}", [role], ["email"], JobPriority.LOW)
        keys.append(key)
        registry = registry.with_entry(entry)
    path = tmp_path_factory.mktemp("registry") / "principals.json"
    path.write_text(registry.dump())
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("QUEUELOG_REGISTRY_SECRET", raising=False)
        monkeypatch.setenv("QUEUELOG_REGISTRY_FILE", str(path))
        yield keys


#: What Lambda makes of an event: any JSON, in which any code unit may stand alone.
ANY_TEXT = st.text(st.characters(exclude_categories=()))
ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.binary().map(lambda sent: sent.decode("latin-1")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(value=ANY_VALUE, more=ANY_VALUE)
def test_whatever_a_header_holds_is_denied_and_nothing_raises(
    many_keys: list[str], value: object, more: object
) -> None:
    assert not is_allowed(SteppedClock(), value)
    for key in many_keys:
        assert not is_allowed(SteppedClock(), [key, more])
        assert not is_allowed(SteppedClock(), f"{more}{key}") or more == ""


@pytest.mark.parametrize("piece", ["A", " ", "ql_", "_", "ql_unknown0_", "\x00", "é", "\ud800"], ids=ascii)
def test_a_long_header_takes_hardly_more_steps_than_a_short_one(many_keys: list[str], piece: str) -> None:
    registry = Registry.parse(Path(os.environ["QUEUELOG_REGISTRY_FILE"]).read_text())
    for start in ("", many_keys[0]):
        short, long = (
            steps_of(partial(registry.authenticate, start + piece * length, START)) for length in (1, 100_000)
        )
        assert long <= 2 * short


@given(
    name=st.from_regex(NAME_PATTERN, fullmatch=True),
    roles=st.sets(st.sampled_from(Role), min_size=1),
    types=st.none() | st.sets(st.from_regex(TYPE_PATTERN, fullmatch=True), max_size=5),
    max_priority=st.none() | st.sampled_from(JobPriority),
)
def test_a_key_is_let_in_as_who_it_was_made_for(
    many_keys: list[str], name: str, roles: set[Role], types: set[str] | None, max_priority: JobPriority | None
) -> None:
    key, entry = new_entry(name, roles, types, max_priority)
    file = Path(os.environ["QUEUELOG_REGISTRY_FILE"])
    before = file.read_text()
    file.write_text(Registry.parse(before).with_entry(entry).dump())
    answer = ask(SteppedClock(), key)
    file.write_text(before)
    # API Gateway passes the context on as text.
    assert all(isinstance(value, str) for value in answer["context"].values())
    found = principal_of({"requestContext": {"authorizer": answer["context"]}}, Settings.of({"QUEUELOG_DATABASE": "-"}))
    assert found == Principal(
        name=name,
        roles=frozenset(roles),
        types=None if types is None else frozenset(types),
        max_priority=max_priority,
    )


@given(data=st.data())
def test_no_text_but_a_key_itself_is_let_in_and_none_raises(many_keys: list[str], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(many_keys))
    place = data.draw(st.integers(0, len(key)))
    piece = data.draw(st.text(max_size=5))
    changed = key[:place] + piece + key[place + data.draw(st.integers(0, 5)) :]
    for text in (changed, data.draw(st.text())):
        assert is_allowed(SteppedClock(), text) == (text in many_keys)
