"""`queuelog keys`, over a local registry and over a stack's."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber

import authorize
from queuelog import InvalidRegistry, JobPriority, Role
from queuelog.registry import Registry, new_entry
from queuelog_client.cli.output import local_time
from queuelog_client.cli.registries import ATTEMPTS, MAX_SECRET_BYTES, create
from tests.client.cli.support import Ran, add_resource, made_by_make, queuelog
from tests.support import PYTHONPATH, START, SteppedClock, start_python

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_secretsmanager import SecretsManagerClient

NOW = START
OPTIONS = {
    "ROLES": "--roles",
    "TYPES": "--types",
    "MAX_PRIORITY": "--max-priority",
    "EXPIRES": "--expires",
    "STACK": "--stack",
    "DATA_DIR": "--data-dir",
}


def arguments_of(settings: dict[str, str]) -> list[str]:
    """What `make key` makes of its variables."""
    options = [f"{option}={settings[name]}" for name, option in OPTIONS.items() if name in settings]
    return ["keys", "create", *options, "--", *([settings["NAME"]] if "NAME" in settings else [])]


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

    def keys(self, *arguments: str) -> Ran:
        """Run `queuelog keys … --stack queue` against this account."""
        add_resource(self.stacks, "RegistrySecret", self.secret)
        return self.run("keys", *arguments, "--stack=queue")

    def make(self, name: str, roles: str) -> Ran:
        return self.keys("create", name, f"--roles={roles}")

    def run(self, *arguments: str) -> Ran:
        return queuelog(*arguments, client=self._client)

    def _client(self, name: str) -> Any:
        return {"cloudformation": self.cloudformation, "secretsmanager": self.secrets_manager}[name]

    def put(self, text: str) -> None:
        self.someone_else.put_secret_value(SecretId=self.secret, SecretString=text)

    def registry(self) -> Registry:
        return Registry.parse(self.text())

    def text(self) -> str:
        # Moto finds the current version by its label only when asked for the label.
        value = self.someone_else.get_secret_value(SecretId=self.secret, VersionStage="AWSCURRENT")
        return value["SecretString"]

    def names(self) -> list[str]:
        return [entry["name"] for entry in json.loads(self.text())["principals"]]


def registry_of(*names: str) -> Registry:
    return Registry({"principals": [new_entry(name, ["worker"])[1] for name in names]})


@pytest.fixture
def account(aws: None) -> Account:
    return Account()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def make(data_dir: Path, **settings: str) -> Ran:
    where = {} if "STACK" in settings else {"DATA_DIR": str(data_dir)}
    return queuelog(*arguments_of({**where, **settings}))


def printed_key(ran: Ran) -> str:
    (key,) = [word for word in ran.out.split() if word.startswith("ql_")]
    return key


def read(data_dir: Path) -> Registry:
    return Registry.parse((data_dir / "principals.json").read_text())


def test_a_key_is_printed_once_with_its_entry_and_opens_the_local_registry(
    data_dir: Path,
) -> None:
    code, out, err = make(data_dir, NAME="billing", ROLES="producer,worker")
    assert (code, err) == (0, "")
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
    assert make(data_dir, NAME="billing", ROLES=" producer ", **settings).code == 0
    (entry,) = json.loads((data_dir / "principals.json").read_text())["principals"]
    assert entry["roles"] == ["producer"]
    assert entry["types"] == ["email", "pdf"]
    assert entry["max_priority"] == "high"
    assert entry["expires_at"] == "2026-12-30T23:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "span"),
    [("90d", timedelta(days=90)), ("12h", timedelta(hours=12)), ("30m", timedelta(minutes=30))],
)
def test_an_expiry_may_be_a_span_from_now(data_dir: Path, text: str, span: timedelta) -> None:
    key = printed_key(make(data_dir, NAME="billing", ROLES="producer", EXPIRES=text))
    assert read(data_dir).authenticate(key, NOW + span - timedelta(milliseconds=1)) is not None
    assert read(data_dir).authenticate(key, NOW + span) is None


def test_an_end_without_a_zone_is_of_this_machine_s(data_dir: Path) -> None:
    key = printed_key(make(data_dir, NAME="billing", ROLES="producer", EXPIRES="2026-12-31"))
    end = datetime(2026, 12, 31).astimezone(UTC)
    assert read(data_dir).authenticate(key, end - timedelta(milliseconds=1)) is not None
    assert read(data_dir).authenticate(key, end) is None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ROLES": "producer"}, "Missing argument 'NAME'"),
        ({"NAME": "billing"}, "Missing option '--roles'"),
        ({"NAME": "", "ROLES": "producer"}, "'NAME': is empty: give it a value or leave it out."),
        ({"NAME": "a:b", "ROLES": "producer"}, "name must be 1 to 100 letters"),
        ({"NAME": "a" * 101, "ROLES": "producer"}, "name must be 1 to 100 letters"),
        ({"NAME": "billing", "ROLES": "boss"}, "one or more of producer, worker, admin"),
        ({"NAME": "billing", "ROLES": "producer,"}, "'producer,' has a comma too many."),
        (
            {"NAME": "billing", "ROLES": "producer", "TYPES": ""},
            "'--types': is empty: give it a value or leave it out.",
        ),
        ({"NAME": "billing", "ROLES": "producer", "TYPES": "a,,b"}, "'a,,b' has a comma too many."),
        ({"NAME": "billing", "ROLES": "producer", "TYPES": "a b"}, "types must be"),
        ({"NAME": "billing", "ROLES": "producer", "MAX_PRIORITY": "urgent"}, "'low', 'medium', 'high', 'critical'"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": " "}, "'--expires': ' ' is no time such as"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "soon"}, "or how long from now, such as 2h."),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "90"}, "'90' is no time such as"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "-1d"}, "'-1d' is no time such as"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "999999d"}, "'999999d' is no time such as"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "0001-01-01T00:00:00+01:00"}, "is no time such as"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "0d"}, "'0d' lies in the past"),
        ({"NAME": "billing", "ROLES": "producer", "EXPIRES": "2026-01-31T12:00:00Z"}, "in the past"),
        ({"NAME": "billing", "ROLES": "producer", "STACK": ""}, "'--stack': is empty"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_makes_nothing(
    data_dir: Path, settings: dict[str, str], sentence: str
) -> None:
    ran = make(data_dir, **settings)
    assert (ran.code, ran.out) == (2, "")
    assert ran.sentence.startswith("Error: ")
    assert sentence in ran.sentence
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
    data_dir: Path,
) -> None:
    first = make(data_dir, NAME="billing", ROLES="producer")
    second = make(data_dir, NAME="billing", ROLES="producer")
    assert "billing already had 1 key: all are one principal" in second.out
    principals = {read(data_dir).authenticate(printed_key(ran), NOW) for ran in (first, second)}
    assert [principal and principal.name for principal in principals] == ["billing"]


@pytest.mark.parametrize("text", [b"{", b"\xff"])
@pytest.mark.parametrize(
    "arguments",
    [("create", "billing", "--roles=producer"), ("list",), ("revoke", "abcdefgh", "--yes"), ("rotate", "billing")],
)
def test_a_malformed_registry_is_left_as_it_is(data_dir: Path, text: bytes, arguments: tuple[str, ...]) -> None:
    data_dir.mkdir()
    path = data_dir / "principals.json"
    path.write_bytes(text)
    code, out, err = keys(data_dir, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {path} can't be used. ")
    assert err.count("\n") == 1
    assert path.read_bytes() == text


def test_a_data_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = make(tmp_path / "file", NAME="billing", ROLES="producer")
    assert ran.code == 1
    assert ran.err.startswith("Error: Nothing was changed: ")
    assert "could not be written" in ran.err


def test_a_registry_that_cannot_be_read_is_one_sentence(data_dir: Path) -> None:
    (data_dir / "principals.json").mkdir(parents=True)
    ran = keys(data_dir, "list")
    assert (ran.code, ran.out) == (1, "")
    assert "could not be read (Is a directory)" in ran.err


def test_create_returns_a_key_that_opens_the_registry(data_dir: Path) -> None:
    path = data_dir / "principals.json"
    key = create(path, "nightly", [Role.WORKER], types=["email"], max_priority=JobPriority.LOW, expires_at=NOW)
    principal = Registry.parse(path.read_text()).authenticate(key, NOW - timedelta(seconds=1))
    assert principal is not None
    assert principal.types == frozenset({"email"})
    with pytest.raises(InvalidRegistry):
        create(path, "a/b", [Role.WORKER])


def test_keys_made_at_the_same_time_are_all_kept(data_dir: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "queuelog_client",
        "keys",
        "create",
        "a",
        "--roles=worker",
        f"--data-dir={data_dir}",
    ]
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, env=environ, check=True), range(4)))
    assert len(done) == 4
    assert len(read(data_dir).key_ids("a")) == 4


def test_make_key_passes_on_what_it_is_given_as_it_is(tmp_path: Path) -> None:
    local = {"NAME": "bil ling", "ROLES": "admin", "TYPES": "", "EXPIRES": "9'"}
    assert made_by_make("key", tmp_path, **local) == [
        ["keys", "create", "--data-dir=.local", "--roles=admin", "--types=", "--expires=9'", "--", "bil ling"]
    ]
    stack = {"NAME": "--yes", "ROLES": "admin", "STACK": "queuelog", "DATA_DIR": "here", "MAX_PRIORITY": "high"}
    assert made_by_make("key", tmp_path, **stack) == [
        ["keys", "create", "--stack=queuelog", "--roles=admin", "--max-priority=high", "--", "--yes"]
    ]


def test_make_says_which_of_its_variables_it_lacks(tmp_path: Path) -> None:
    for target, sentence in {"key": "make key NAME=billing ROLES=producer,worker", "restore": "FROM=a file"}.items():
        with pytest.raises(subprocess.CalledProcessError) as ended:
            made_by_make(target, tmp_path)
        assert sentence in ended.value.stderr


def test_the_first_key_of_a_stack_goes_into_its_secret_and_is_let_in(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = printed_key(account.make("admin", "admin"))
    assert key[12:] not in account.text()
    monkeypatch.setenv("QUEUELOG_REGISTRY_SECRET", account.secret)
    event = {**json.loads(Path("events/authorize.json").read_text()), "authorizationToken": key}
    answer = authorize.handler(event, SimpleNamespace(aws_request_id="1", clock=SteppedClock()))
    assert answer["context"] == {"name": "admin", "roles": "admin", "max_priority": "critical"}


def test_a_stack_given_means_that_nothing_is_written_locally(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert account.make("admin", "admin").code == 0
    assert list(tmp_path.iterdir()) == []
    both = account.run("keys", "create", "admin", "--roles=admin", "--stack=queue", f"--data-dir={tmp_path}")
    assert both.code == 2
    assert both.sentence == "Error: --stack and --data-dir name two registries: give one."


def test_further_keys_of_a_stack_join_those_that_are_there(account: Account) -> None:
    for name in ("admin", "billing", "nightly"):
        assert account.make(name, "worker").code == 0
    assert account.names() == ["admin", "billing", "nightly"]


def test_a_key_that_someone_else_adds_meanwhile_is_not_lost(account: Account) -> None:
    account.make("first", "admin")
    rivals = [f"rival-{number}" for number in range(1, ATTEMPTS)]
    everyone = ["first", *rivals, "mine"]

    def write(**request: object) -> None:
        if rivals:
            _, entry = new_entry(rivals.pop(0), ["worker"])
            account.put(Registry.parse(account.text()).with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("after-call.secretsmanager.PutSecretValue", write)
    assert account.make("mine", "worker").code == 0
    assert account.names() == everyone


def test_two_first_keys_at_the_same_time_are_both_kept(account: Account) -> None:
    rivals = ["rival"]

    def write(**request: object) -> None:
        if rivals:
            _, entry = new_entry(rivals.pop(), ["worker"])
            account.put(Registry.parse("").with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("before-call.secretsmanager.PutSecretValue", write)
    assert account.make("mine", "worker").code == 0
    assert account.names() == ["rival", "mine"]


def test_a_secret_that_never_rests_is_given_up(account: Account) -> None:
    account.make("first", "admin")
    rivals: list[str] = []

    def write(**request: object) -> None:
        rivals.append("rival")
        _, entry = new_entry("rival", ["worker"])
        account.put(Registry.parse(account.text()).with_entry(entry).dump())

    events = account.secrets_manager.meta.events
    events.register("before-call.secretsmanager.UpdateSecretVersionStage", write)
    code, out, err = account.make("mine", "worker")
    assert (code, out) == (1, "")
    assert "others kept changing the registry" in err
    assert len(rivals) == ATTEMPTS
    assert "mine" not in account.names()


def test_a_malformed_secret_is_left_as_it_is(account: Account) -> None:
    account.put('{"principals": [7]}')
    ran = account.make("mine", "worker")
    assert ran.code == 1
    assert "principals[0] is wrong" in ran.err
    assert account.text() == '{"principals": [7]}'


def test_a_binary_secret_is_added_to_and_not_replaced(account: Account) -> None:
    _, entry = new_entry("earlier", ["worker"])
    text = Registry.parse("").with_entry(entry).dump()
    account.secrets_manager.put_secret_value(SecretId=account.secret, SecretBinary=text.encode())
    assert account.make("mine", "worker").code == 0
    assert account.names() == ["earlier", "mine"]


def test_a_registry_too_large_for_a_secret_is_refused(account: Account) -> None:
    account.put(json.dumps({"principals": [], "note": "n" * (MAX_SECRET_BYTES - 100)}))
    ran = account.make("mine", "worker")
    assert ran.code == 1
    assert f"{MAX_SECRET_BYTES} bytes" in ran.err


def test_a_stack_that_is_not_there_is_one_sentence(account: Account) -> None:
    account.stacks.add_client_error("describe_stack_resource", "ValidationError", "Stack 'nope' does not exist")
    code, out, err = account.run("keys", "create", "mine", "--roles=worker", "--stack=nope")
    assert (code, out) == (1, "")
    assert err.startswith("Error: The secret of the stack nope was not changed: ")
    assert "Stack 'nope' does not exist" in err
    assert err.count("\n") == 1


def test_an_aws_account_that_is_not_configured_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    command = ("keys", "create", "mine", "--roles=worker", "--stack=queue")
    ran = queuelog(*command)
    assert ran.code == 1
    assert "You must specify a region" in ran.err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    ran = queuelog(*command)
    assert ran.code == 1
    assert "The config profile (nobody) could not be found" in ran.err


def test_a_change_without_an_answer_is_not_said_to_have_failed(account: Account) -> None:
    def no_answer(**request: object) -> None:
        raise ReadTimeoutError(endpoint_url="https://secretsmanager")

    account.make("first", "admin")
    account.secrets_manager.meta.events.register("after-call.secretsmanager.UpdateSecretVersionStage", no_answer)
    code, out, err = account.make("mine", "worker")
    assert (code, out) == (1, "")
    assert err.startswith("Error: It isn't known whether the secret of the stack queue was changed: look at it")
    assert account.names() == ["first", "mine"]


def keys(data_dir: Path, *arguments: object, now: datetime = NOW) -> Ran:
    return queuelog("keys", *arguments, f"--data-dir={data_dir}", now=lambda: now)


def document(data_dir: Path) -> Any:
    return json.loads((data_dir / "principals.json").read_text())


@pytest.fixture
def three(data_dir: Path) -> list[dict[str, Any]]:
    """A registry of two principals, one of which has two keys, with fields of a later release."""
    entries = [
        new_entry("billing", ["producer"], ["email", "pdf"], JobPriority.HIGH)[1] | {"owner": "ann"},
        new_entry("nightly", ["worker"], [], None, NOW + timedelta(hours=1))[1],
        new_entry("billing", ["producer"], ["pdf", "email"], JobPriority.HIGH)[1],
    ]
    data_dir.mkdir()
    (data_dir / "principals.json").write_text(json.dumps({"schema": 2, "principals": entries}))
    return entries


def test_the_list_tells_all_but_the_keys_and_their_digests(data_dir: Path, three: list[dict[str, Any]]) -> None:
    ran = keys(data_dir, "list", now=NOW + timedelta(hours=1, minutes=5))
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["key", "id", "name", "roles", "types", "up", "to", "expires"]
    assert lines[1] == [three[0]["key_id"], "billing", "producer", "email,", "pdf", "high", "never"]
    assert lines[2][1:] == ["nightly", "worker", "none", "medium", "5", "min", "ago"]
    as_json = keys(data_dir, "list", "--json")
    assert json.loads(as_json.out)["keys"][1] == {
        "key_id": three[1]["key_id"],
        "name": "nightly",
        "roles": ["worker"],
        "types": [],
        "max_priority": "medium",
        "expires_at": "2026-01-31T13:00:00.000Z",
        "expired": False,
    }
    assert not any(entry["key_sha256"] in ran.out + as_json.out for entry in three)


def test_an_empty_registry_is_said_to_be_one_and_not_made(data_dir: Path) -> None:
    assert keys(data_dir, "list") == (0, f"There are no keys in {data_dir}/principals.json.\n", "")
    assert not data_dir.exists()


def test_a_new_key_can_be_had_as_json(data_dir: Path) -> None:
    made = json.loads(keys(data_dir, "create", "billing", "--roles=admin", "--json").out)
    key = made.pop("key")
    assert json.loads(keys(data_dir, "list", "--json").out)["keys"] == [made]
    assert read(data_dir).authenticate(key, NOW) is not None


def test_keys_are_revoked_by_their_ids(data_dir: Path, three: list[dict[str, Any]]) -> None:
    ids = [entry["key_id"] for entry in three]
    ran = keys(data_dir, "revoke", ids[2], ids[1], ids[2], "--yes")
    assert ran == (0, f"Revoked {ids[2]} of billing, {ids[1]} of nightly, in {data_dir}/principals.json.\n", "")
    assert document(data_dir) == {"schema": 2, "principals": three[:1]}


def test_all_keys_of_a_principal_are_revoked_by_its_name(data_dir: Path, three: list[dict[str, Any]]) -> None:
    ran = keys(data_dir, "revoke", "--name=billing", "--yes", "--json")
    assert json.loads(ran.out) == {"revoked": [three[0]["key_id"], three[2]["key_id"]]}
    assert document(data_dir)["principals"] == [three[1]]


def test_what_can_not_be_revoked_is_said_and_nothing_is(data_dir: Path, three: list[dict[str, Any]]) -> None:
    before = (data_dir / "principals.json").read_bytes()
    known = three[0]["key_id"]
    secret = "ql_abcdefgh_" + "S" * 43
    for code, sentence, arguments in [
        (1, "There is no key nosuchid in ", ("nosuchid", known, "--yes")),
        (1, "There is no key of nobody in ", ("--name=nobody", "--yes")),
        (2, "Say which keys", ("--yes",)),
        (2, "Say which keys", (known, "--name=billing", "--yes")),
        (2, "Nobody can be asked here whether that is meant: say --yes.", (known,)),
        (2, "must be a key's id", (secret, "--yes")),
    ]:
        ran = keys(data_dir, "revoke", *arguments)
        assert (ran.code, ran.out) == (code, "")
        assert sentence in ran.sentence
        assert "SSS" not in ran.err
        assert (data_dir / "principals.json").read_bytes() == before


@pytest.mark.parametrize(("said", "left"), [(b"n\n", 3), (b"y\n", 2)])
def test_at_a_terminal_it_asks_first(data_dir: Path, three: list[dict[str, Any]], said: bytes, left: int) -> None:
    ours, theirs = pty.openpty()
    command = ("-m", "queuelog_client", "keys", "revoke", three[0]["key_id"], f"--data-dir={data_dir}")
    process = start_python(*command, stdin=theirs, stderr=subprocess.PIPE)
    os.write(ours, said)
    _, asked = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert asked.startswith(f"Revoke {three[0]['key_id']} of billing? [y/N]:")
    assert process.returncode == (left == 3)
    assert len(document(data_dir)["principals"]) == left


def test_a_key_is_rotated_into_one_that_may_do_the_same(data_dir: Path, three: list[dict[str, Any]]) -> None:
    ran = keys(data_dir, "rotate", three[0]["key_id"], "--keep=12h")
    key = printed_key(ran)
    first, second, third, new = document(data_dir)["principals"]
    assert first == three[0] | {"expires_at": "2026-02-01T00:00:00.000Z"}
    assert [second, third] == three[1:]
    assert new | {"key_id": 0, "key_sha256": 0} == three[0] | {"key_id": 0, "key_sha256": 0}
    assert f"{three[0]['key_id']} ends at {local_time(NOW + timedelta(hours=12))} (in 12 h)" in ran.out
    principal = read(data_dir).authenticate(key, NOW + timedelta(days=9))
    assert principal is not None
    assert principal == read(data_dir).entries[0].principal


def test_all_keys_of_a_name_end_when_it_is_rotated(data_dir: Path, three: list[dict[str, Any]]) -> None:
    rotated = json.loads(keys(data_dir, "rotate", "billing", "--json").out)
    first, _, third, new = document(data_dir)["principals"]
    assert [first["expires_at"], third["expires_at"], new["expires_at"]] == ["2026-02-01T12:00:00.000Z"] * 2 + [None]
    assert rotated["replaced"] == [three[0]["key_id"], three[2]["key_id"]]
    assert rotated["replaced_until"] == "2026-02-01T12:00:00.000Z"
    assert read(data_dir).authenticate(rotated["key"], NOW) is not None


def test_a_key_that_is_kept_no_longer_is_revoked_at_once(data_dir: Path, three: list[dict[str, Any]]) -> None:
    ran = keys(data_dir, "rotate", "billing", "--keep=0")
    assert "are revoked." in ran.out
    assert [entry["key_id"] for entry in document(data_dir)["principals"]] == [
        three[1]["key_id"],
        printed_key(ran)[3:11],
    ]


def test_a_key_with_an_end_is_not_rotated_into_one_that_lasts_for_ever(
    data_dir: Path, three: list[dict[str, Any]]
) -> None:
    refused = keys(data_dir, "rotate", "nightly")
    assert refused.code == 2
    assert "say with --expires when the new one ends, or never" in refused.sentence
    assert document(data_dir)["principals"] == three
    keys(data_dir, "rotate", "nightly", "--expires=90d")
    ends = [entry["expires_at"] for entry in document(data_dir)["principals"] if entry["name"] == "nightly"]
    # The old one would have ended before it is to.
    assert ends == ["2026-01-31T13:00:00.000Z", "2026-05-01T12:00:00.000Z"]
    assert keys(data_dir, "rotate", "nightly", "--expires=never").code == 0
    assert document(data_dir)["principals"][-1]["expires_at"] is None


def test_what_can_not_be_rotated_is_said_and_nothing_is(data_dir: Path, three: list[dict[str, Any]]) -> None:
    path = data_dir / "principals.json"
    other = new_entry("billing", ["admin"])[1]
    twin = new_entry(three[0]["key_id"], ["admin"])[1]
    path.write_text(json.dumps({"principals": [*three, other, twin]}))
    before = path.read_bytes()
    for code, sentence, which, more in [
        (1, "There is no key of nobody, nor one with that id", "nobody", ()),
        (1, "The keys of billing may do different things", "billing", ()),
        (1, "is a key's id and another one's name", three[0]["key_id"], ()),
        (1, "What nightly has is expired already", "nightly", ("--expires=never",)),
        (2, "'--keep': 'soon' is no time such as", other["key_id"], ("--keep=soon",)),
        (2, "'--expires': 'soon' is no time such as", other["key_id"], ("--expires=soon",)),
        (2, "'0d' lies in the past", other["key_id"], ("--expires=0d",)),
    ]:
        ran = keys(data_dir, "rotate", which, *more, now=NOW + timedelta(hours=2))
        assert (ran.code, ran.out) == (code, "")
        assert sentence in ran.sentence
        assert path.read_bytes() == before


def test_a_stack_s_keys_are_listed_rotated_and_revoked(account: Account) -> None:
    old = printed_key(account.make("billing", "producer"))
    new = printed_key(account.keys("rotate", "billing"))
    assert account.registry().authenticate(old, NOW + timedelta(days=1)) is None
    assert account.registry().authenticate(old, NOW) == account.registry().authenticate(new, NOW + timedelta(days=1))
    listed = json.loads(account.keys("list", "--json").out)["keys"]
    assert [each["key_id"] for each in listed] == [old[3:11], new[3:11]]
    ran = account.keys("revoke", old[3:11], "--yes")
    assert ran.out == (
        f"Revoked {old[3:11]} of billing, in the secret of the stack queue. It may still be let in for two minutes.\n"
    )
    assert account.registry().key_ids("billing") == [new[3:11]]
    assert "two minutes" in account.keys("rotate", "billing", "--keep=0").out


@pytest.mark.parametrize(
    ("arguments", "left"),
    [(("revoke", "--name=one", "--yes"), ["two"]), (("rotate", "two"), ["one", "two"])],
)
def test_what_others_change_in_a_stack_meanwhile_is_kept_however_a_key_ends(
    account: Account, arguments: tuple[str, ...], left: list[str]
) -> None:
    # Put as one version: of a label that moved twice Moto forgets where it was.
    account.put(registry_of("one", "two").dump())
    rivals = ["rival-1", "rival-2"]

    def write(**request: object) -> None:
        if rivals:
            _, entry = new_entry(rivals.pop(0), ["worker"])
            account.put(account.registry().with_entry(entry).dump())

    account.secrets_manager.meta.events.register("after-call.secretsmanager.PutSecretValue", write)
    assert account.keys(*arguments).code == 0
    assert account.names() == [*left, "rival-1", "rival-2", *(["two"] if arguments[0] == "rotate" else [])]


def test_of_a_key_that_is_revoked_meanwhile_there_is_no_other_one(account: Account) -> None:
    account.put(registry_of("first", "leaked").dump())
    (old,) = account.registry().key_ids("leaked")
    rivals = [old]

    def revoke(**request: object) -> None:
        if rivals:
            account.put(account.registry().without([rivals.pop()]).dump())

    account.secrets_manager.meta.events.register("after-call.secretsmanager.PutSecretValue", revoke)
    code, out, err = account.keys("rotate", "leaked")
    assert (code, out) == (1, "")
    assert f"There is no key {old} to make another one of" in err
    assert account.names() == ["first"]


def test_a_change_whose_answer_was_lost_is_made_once(account: Account) -> None:
    account.make("first", "admin")
    lost: list[object] = []

    def lose(http_response: Any, parsed: dict[str, Any], **answer: object) -> None:
        if not lost:
            lost.append(http_response)
            # As when botocore repeats it: by then the label has moved.
            message = {"Code": "InvalidRequestException", "Message": "moved"}
            parsed.update({"Error": message})
            http_response.status_code = 400

    account.secrets_manager.meta.events.register("after-call.secretsmanager.UpdateSecretVersionStage", lose)
    assert account.make("mine", "worker").code == 0
    lost.clear()
    assert account.keys("revoke", account.registry().key_ids("mine")[0], "--yes").code == 0
    lost.clear()
    assert account.keys("rotate", "first").code == 0
    assert account.names() == ["first", "first"]


@pytest.mark.parametrize(
    ("missing", "arguments", "advice"),
    [
        ("queuelog", ("keys", "list"), "pip install ./layers/queuelog"),
        ("boto3", ("keys", "list", "--stack=queue"), 'pip install "./client[aws]"'),
        ("boto3", ("backup", "--stack=queue"), 'pip install "./client[aws]"'),
        ("boto3", ("restore", "s3://bucket/key"), 'pip install "./client[aws]"'),
        ("queuelog", ("backup", "copy.db"), "pip install ./layers/queuelog"),
        ("queuelog", ("restore", "copy.db"), "pip install ./layers/queuelog"),
        ("queuelog", ("doctor", "--file=queue.db"), "pip install ./layers/queuelog"),
    ],
)
def test_what_is_not_installed_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, missing: str, arguments: tuple[str, ...], advice: str
) -> None:
    # None is what import takes for "there is no such module".
    for name in {missing, "botocore"} if missing == "boto3" else {missing}:
        monkeypatch.setitem(sys.modules, name, None)
    ran = queuelog(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert advice in ran.err
    assert ran.err.count("\n") == 1
