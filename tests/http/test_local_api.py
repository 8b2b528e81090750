from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from local.api import LocalApi
from local.errors import CannotStartError
from local.functions import FunctionFailedError
from queuelog_client.cli.registries import create
from tests import first_release
from tests.support import SteppedClock, add_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
EMAIL = {"type": "email", "payload": {"to": "ada@example.com"}}
PROBLEM = "application/problem+json"

# One function that answers with what it was given, one that lets everyone in, one that raises.
TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Globals:
  Function: {Runtime: python3.13, CodeUri: code/, Timeout: 15, MemorySize: 256}
Resources:
  Registry: {Type: AWS::SecretsManager::Secret}
  Api:
    Type: AWS::Serverless::Api
    Properties:
      StageName: v1
      BinaryMediaTypes: ['*~1*']
      Auth:
        DefaultAuthorizer: Door
        Authorizers:
          Door: {FunctionArn: !GetAtt DoorFunction.Arn, FunctionPayloadType: TOKEN, Identity: {Header: X-Api-Key}}
      GatewayResponses:
        DEFAULT_5XX:
          ResponseParameters: {Headers: {Content-Type: "'application/problem+json'"}}
          ResponseTemplates: {application/json: '{"detail": "Sorry"}'}
  DoorFunction:
    Type: AWS::Serverless::Function
    Properties:
      Handler: door.handler
      Environment: {Variables: {QUEUELOG_REGISTRY_SECRET: !Ref Registry}}
  EchoFunction:
    Type: AWS::Serverless::Function
    Properties:
      Handler: echo.handler
      Environment: {Variables: {QUEUELOG_DATABASE: /mnt/queue/queue.db, QUEUELOG_JOB_TYPES: 'email,pdf'}}
      Events: {Post: {Type: Api, Properties: {RestApiId: !Ref Api, Path: '/echo/{id}', Method: POST}}}
  RaiseFunction:
    Type: AWS::Serverless::Function
    Properties:
      Handler: echo.raise_it
      Events: {Get: {Type: Api, Properties: {RestApiId: !Ref Api, Path: /raise, Method: GET}}}
  WrongFunction:
    Type: AWS::Serverless::Function
    Properties:
      Handler: echo.answer_wrongly
      Events: {Get: {Type: Api, Properties: {RestApiId: !Ref Api, Path: /wrong, Method: GET}}}
"""
DOOR = """
def handler(event, context):
    if event["authorizationToken"] == "raise":
        raise ValueError
    statement = {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": "*"}
    return {
        "principalId": "me",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"list": []} if event["authorizationToken"] == "list" else {"flag": True, "number": 7, "text": "x"},
    }
"""
ECHO = """
import json, os

def handler(event, context):
    seen = {"event": event, "environment": dict(os.environ)}
    seen["context"] = {name: getattr(context, name) for name in CONTEXT}
    seen["remaining"] = context.get_remaining_time_in_millis()
    seen["clock"] = str(context.clock.now()) if hasattr(context, "clock") else None
    return {"statusCode": 200, "body": json.dumps(seen)}

CONTEXT = ["aws_request_id", "function_name", "function_version", "memory_limit_in_mb", "invoked_function_arn"]

def raise_it(event, context):
    raise ValueError("a secret of the function")

def answer_wrongly(event, context):
    return {"statusCode": 200, "colour": "green"}
"""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str,
    path: str,
    key: str | None = None,
    body: object = None,
    method: str | None = None,
) -> Answer:
    """Send one request: a GET, or a POST when there is a body; bytes are sent as they are."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        headers = {"Content-Type": "application/json"} if content else {}
        if key is not None:
            headers["X-Api-Key"] = key
        connection.request(method or ("GET" if body is None else "POST"), path, content, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def assert_is_problem(answer: Answer, status: int, slug: str) -> None:
    assert (answer.status, answer.headers["Content-Type"]) == (status, PROBLEM)
    assert answer.json["type"] == f"urn:queuelog:problem:{slug}"
    assert answer.json["status"] == status
    assert answer.json["title"]
    assert answer.json["detail"]


@dataclass
class Process:
    """`python -m local` with nothing of this process's environment but the path of its modules."""

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)

    def start(self) -> subprocess.Popen[bytes]:
        self.directory.mkdir(exist_ok=True)
        with self._out.open("wb") as out, self._err.open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "local"],
                cwd=ROOT,
                env={
                    "DATA_DIR": str(self.data),
                    "HOME": str(self.directory),
                    "PATH": os.defpath,
                    "PORT": "0",
                    "PYTHONPATH": "layers/queuelog/python:functions:client:.",
                    **self.settings,
                },
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start()
        try:
            while "listens on" not in self.out:
                assert process.poll() is None, self.err
                time.sleep(0.02)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()

    def run(self) -> int:
        return self.start().wait()

    @property
    def _out(self) -> Path:
        return self.directory / "out.txt"

    @property
    def _err(self) -> Path:
        return self.directory / "err.txt"

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def url(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+", self.out)
        assert found
        return found[0]

    @property
    def keys(self) -> dict[str, str]:
        keys: dict[str, str] = json.loads((self.data / "keys.json").read_text())
        return keys


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("running"))
    with process.serving():
        yield process


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a template of three routes that stand for any."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/door.py").write_text(DOOR)
    (tmp_path / "code/echo.py").write_text(ECHO)
    template = tmp_path / "template.yaml"
    template.write_text(TEMPLATE)
    return template


class StoppedClock:
    """A clock that tells no time until it is released, so that a request stays in a function."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()

    def now(self) -> datetime:
        self.asked.set()
        self.released.wait()
        return NOON


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def takes_connections(url: str) -> bool:
    try:
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_first_start_makes_the_queue_the_registry_and_a_private_key_for_each_role(running: Process) -> None:
    assert ask(running.url, "/health").json == {"status": "ok"}
    assert (running.data / "queue.db").read_bytes().startswith(b"SQLite format 3")
    assert sorted(running.keys) == ["admin", "producer", "worker"]
    registry = json.loads((running.data / "principals.json").read_text())["principals"]
    assert {entry["name"]: entry["roles"] for entry in registry} == {role: [role] for role in running.keys}
    assert mode(running.data / "keys.json") == mode(running.data / "principals.json") == 0o600
    assert mode(running.data) == 0o700


def test_no_key_is_printed_nor_logged(running: Process) -> None:
    ask(running.url, "/jobs", running.keys["admin"])
    printed = running.out + running.err + (running.data / "functions.log").read_text()
    assert not any(key in printed for key in running.keys.values())


def test_the_session_that_it_prints_works_when_pasted(tmp_path: Path) -> None:
    process = Process(tmp_path / "it's here")
    with process.serving():
        printed = process.out
        # What follows, with the command line, is pasted by its own tests.
        pasted = printed[printed.index("  key()") : printed.index("Or with the command line")]
        shown = subprocess.run(["bash", "-c", pasted], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^HTTP/1.1 (\d+)", shown, re.MULTILINE) == ["201", "200", "200"]
    assert '"status":"completed"' in shown.replace(" ", "")


def test_a_second_start_keeps_the_jobs_and_the_keys(tmp_path: Path) -> None:
    process = Process(tmp_path)
    with process.serving():
        keys = process.keys
        job = ask(process.url, "/jobs", keys["producer"], EMAIL).json
    with process.serving():
        assert process.keys == keys
        assert ask(process.url, f"/jobs/{job['id']}", keys["producer"]).json == job


def test_keys_join_a_registry_that_is_there_before_them(tmp_path: Path) -> None:
    mine = create(tmp_path / "principals.json", "mine", ["admin"])
    with LocalApi(tmp_path) as api:
        assert {ask(api.url, "/jobs", key).status for key in (mine, api.keys["admin"])} == {200}


def test_keys_whose_registry_is_gone_stop_it(tmp_path: Path) -> None:
    with LocalApi(tmp_path):
        before = (tmp_path / "keys.json").read_text()
    (tmp_path / "principals.json").unlink()
    with pytest.raises(CannotStartError, match=r"principals\.json is missing.*keys\.json away"), LocalApi(tmp_path):
        pass
    assert (tmp_path / "keys.json").read_text() == before
    assert not (tmp_path / "principals.json").exists()


@pytest.mark.parametrize("name", ["keys.json", "principals.json", "queue.db"])
def test_a_file_that_holds_something_else_stops_it_and_is_left_alone(tmp_path: Path, name: str) -> None:
    with LocalApi(tmp_path):
        pass
    (tmp_path / name).write_text("no such thing" * 100)
    with pytest.raises(CannotStartError, match=re.escape(name)), LocalApi(tmp_path):
        pass
    assert (tmp_path / name).read_text() == "no such thing" * 100


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = Process(tmp_path, {"PORT": str(port)})
        assert process.run() == 1
    assert process.err == f"Port {port} is taken. Stop the program that has it, or set PORT to another.\n"
    assert process.out == ""


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = Process(tmp_path, {"DATA_DIR": str(tmp_path / "file" / "data")})
    assert process.run() == 1
    assert re.fullmatch(r"The data directory .* can't be made or written \(.*\)\. Set DATA_DIR .*\.\n", process.err)
    assert process.out == ""


@pytest.mark.parametrize("port", ["http", "65536", "-1", "3000.0", "٣٠٠٠", "9" * 5000])
def test_a_port_that_is_none_is_one_sentence(tmp_path: Path, port: str) -> None:
    process = Process(tmp_path, {"PORT": port})
    assert process.run() == 1
    assert process.err == f"PORT must be a number from 0 (any free port) to 65535, and is {port!r}.\n"


def test_it_listens_on_this_machine_alone(running: Process) -> None:
    assert takes_connections(running.url)
    # Another address of the same machine stands for what others could reach.
    assert not takes_connections(running.url.replace("127.0.0.1", "127.0.0.2"))


@pytest.mark.parametrize("stop", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    local = Process(tmp_path)
    with local.serving() as process:
        assert ask(local.url, "/jobs", local.keys["producer"], EMAIL).status == 201
        process.send_signal(stop)
        assert process.wait() == 0
        assert local.err == ""
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    # The database was closed, so that nothing waits in a log beside it.
    assert not (local.data / "queue.db-wal").exists()


def test_a_signal_while_it_starts_ends_it_cleanly(tmp_path: Path) -> None:
    local = Process(tmp_path)
    process = local.start()
    while not (local.data / "functions.log").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert local.err == ""


def test_an_answer_that_was_begun_is_given_before_it_stops(tmp_path: Path) -> None:
    clock = StoppedClock()
    with ThreadPoolExecutor() as threads, LocalApi(tmp_path, clock=clock) as api:
        answer = threads.submit(ask, api.url, "/jobs", api.keys["producer"], EMAIL)
        clock.asked.wait()
        stopped = threads.submit(api.__exit__)
        while takes_connections(api.url):
            time.sleep(0.01)
        assert not stopped.done()
        clock.released.set()
        assert answer.result().status == 201
        stopped.result()


def test_it_writes_nothing_outside_its_data(tmp_path: Path) -> None:
    local = Process(tmp_path)
    with local.serving():
        # SAM CLI would send the uses of its authorisers home, fifty at a time.
        for _ in range(60):
            assert ask(local.url, "/jobs", local.keys["admin"]).status == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "err.txt", "out.txt"]


def test_it_prints_one_plain_line_for_each_request(running: Process) -> None:
    before = len(running.out.splitlines())
    ask(running.url, "/health?colour=%1b")
    lines = running.out.splitlines()[before:]
    assert len(lines) == 1
    assert re.fullmatch(r"GET /health\?colour=%1b 422 \d+ ms", lines[0])


@pytest.mark.parametrize("method_and_path", ["GET /jobs", "POST /jobs", "POST /jobs/claim", "GET /jobs/1"])
@pytest.mark.parametrize("key", [None, "", "wrong", "ql_aaaaaaaa_" + "a" * 43])
def test_without_a_good_key_every_answer_is_401(running: Process, method_and_path: str, key: str | None) -> None:
    method, path = method_and_path.split()
    assert_is_problem(ask(running.url, path, key, method=method), 401, "unauthorized")


def test_an_unsigned_call_to_the_signed_door_is_401(running: Process) -> None:
    assert_is_problem(ask(running.url, "/iam/jobs"), 401, "unauthorized")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /",
        "GET /batch",
        "GET /batch/claim",
        "GET /job",
        "GET /jobs//1",
        # There is no job called claim, for at its level a name comes before a parameter.
        "GET /jobs/claim",
        "GET /jobs/claim/explain",
        "POST /iam/jobs/claim/fail",
        "POST /jobs/claim/claim",
        "POST /jobs/claim/release",
        "POST /jobs/1/claim",
        "HEAD /jobs",
        "OPTIONS /jobs",
        "PUT /jobs",
        "POST /stats",
    ],
)
def test_an_unknown_route_is_403(running: Process, request_line: str) -> None:
    method, path = request_line.split()
    answer = ask(running.url, path, running.keys["admin"], method=method)
    if method == "HEAD":
        assert (answer.status, answer.headers["Content-Type"]) == (403, PROBLEM)
    else:
        assert_is_problem(answer, 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/jobs", "/jobs"),
        ("GET", "/jobs", "/jobs"),
        ("GET", "/jobs/7", "/jobs/{id}"),
        ("GET", "/jobs/7/explain", "/jobs/{id}/explain"),
        ("POST", "/jobs/claim", "/jobs/claim"),
        ("POST", "/jobs/7/heartbeat", "/jobs/{id}/heartbeat"),
        ("POST", "/jobs/7/complete", "/jobs/{id}/complete"),
        ("POST", "/jobs/7/fail", "/jobs/{id}/fail"),
        ("POST", "/jobs/7/release", "/jobs/{id}/release"),
        ("POST", "/jobs/7/cancel", "/jobs/{id}/cancel"),
        ("POST", "/jobs/7/retry", "/jobs/{id}/retry"),
        ("GET", "/stats", "/stats"),
        ("POST", "/batch/enqueue", "/batch/enqueue"),
        ("POST", "/batch/claim", "/batch/claim"),
        ("POST", "/batch/heartbeat", "/batch/heartbeat"),
        ("POST", "/batch/finish", "/batch/finish"),
        ("POST", "/batch/retry", "/batch/retry"),
        ("GET", "/health", "/health"),
    ],
)
def test_every_route_leads_to_its_function(running: Process, method: str, path: str, route: str) -> None:
    answer = ask(running.url, path, running.keys["admin"], method=method)
    # None of the gateway's own answers.
    assert "instance" in answer.json if answer.status >= 400 else answer.status in {200, 204}
    lines = [json.loads(line) for line in (running.data / "functions.log").read_text().splitlines()]
    routes = [line["route"] for line in lines if line.get("message") == "request"]
    assert routes[-1] == f"{method} {route}"


def test_a_body_over_the_gateways_limit_is_413(running: Process) -> None:
    answer = ask(running.url, "/jobs", running.keys["producer"], b" " * (10 * 1024 * 1024 + 1))
    assert_is_problem(answer, 413, "payload-too-large")


def test_an_authoriser_that_fails_is_500(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    clock = SteppedClock()
    with LocalApi(tmp_path, clock=clock) as api:
        api.data.principals.write_text("{")
        # The last registry that could be read serves for five minutes.
        clock.advance(seconds=300)
        assert_is_problem(ask(api.url, "/jobs", api.keys["admin"]), 500, "internal-error")
    assert "InvalidRegistry" in capfd.readouterr().err


def test_a_function_that_raises_is_502_without_its_text(
    tmp_path: Path, small: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        answer = ask(api.url, "/raise", "any")
    assert (answer.status, answer.headers["Content-Type"], answer.json) == (
        502,
        PROBLEM,
        {"detail": "Sorry"},
    )
    assert "ValueError: a secret of the function" in capfd.readouterr().err


def test_an_answer_that_lambda_could_not_give_is_502(tmp_path: Path, small: Path) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        assert ask(api.url, "/wrong", "any").status == 502


@pytest.mark.parametrize("key", ["raise", "list"])
def test_an_authoriser_that_raises_or_hands_on_a_list_is_500(tmp_path: Path, small: Path, key: str) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        answer = ask(api.url, "/echo/1", key, {})
        assert (answer.status, answer.headers["Content-Type"]) == (500, PROBLEM)


def test_a_function_is_given_what_lambda_gives(tmp_path: Path, small: Path) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        first, second = (ask(api.url, "/echo/7?a=1&a=2", "any", b"\xff{").json for _ in range(2))
    event, context = first["event"], first["context"]
    assert (event["body"], event["isBase64Encoded"]) == ("/3s=", True)
    assert (event["resource"], event["path"], event["requestContext"]["path"]) == ("/echo/{id}", "/echo/7", "/echo/7")
    assert event["pathParameters"] == {"id": "7"}
    assert event["multiValueQueryStringParameters"] == {"a": ["1", "2"]}
    assert event["requestContext"]["authorizer"] == {"principalId": "me", "flag": "true", "number": "7", "text": "x"}
    assert (context["function_name"], context["memory_limit_in_mb"]) == ("EchoFunction", "256")
    assert context["function_version"] == "$LATEST"
    assert context["invoked_function_arn"].startswith("arn:aws:lambda:")
    assert 0 < first["remaining"] <= 15_000
    assert context["aws_request_id"] != second["context"]["aws_request_id"]
    assert event["requestContext"]["requestId"] != second["event"]["requestContext"]["requestId"]


def test_no_body_is_no_base64(tmp_path: Path, small: Path) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        event = ask(api.url, "/echo/7", "any", method="POST").json["event"]
    assert (event["body"], event["isBase64Encoded"]) == (None, False)


def test_variables_come_from_the_template_with_local_values_in_their_place(tmp_path: Path, small: Path) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        environment = ask(api.url, "/echo/7", "any", {}).json["environment"]
    assert environment["QUEUELOG_JOB_TYPES"] == "email,pdf"
    assert environment["QUEUELOG_DATABASE"] == str(tmp_path / "data/queue.db")
    assert environment["QUEUELOG_REGISTRY_FILE"] == str(tmp_path / "data/principals.json")
    assert "QUEUELOG_REGISTRY_SECRET" not in environment
    assert "QUEUELOG_DATABASE" not in os.environ


def test_a_clock_reaches_every_function(tmp_path: Path, small: Path) -> None:
    with LocalApi(tmp_path / "data", template=small) as api:
        assert ask(api.url, "/echo/7", "any", {}).json["clock"] is None
    with LocalApi(tmp_path / "data", template=small, clock=SteppedClock()) as api:
        assert ask(api.url, "/echo/7", "any", {}).json["clock"] == str(NOON)


def test_a_lease_ends_when_the_clock_and_the_schedule_say_so(tmp_path: Path) -> None:
    clock = SteppedClock()
    with LocalApi(tmp_path, clock=clock) as api:
        ask(api.url, "/jobs", api.keys["producer"], EMAIL)
        held = ask(api.url, "/jobs/claim", api.keys["worker"], {"lease_seconds": 30}).json
        clock.advance(seconds=30)
        # Nothing comes by itself where a test steps the clock.
        assert ask(api.url, "/jobs/1", api.keys["admin"]).json["status"] == "running"
        api.run_schedules()
        assert ask(api.url, "/jobs/1", api.keys["admin"]).json["status"] == "pending"
        late = ask(api.url, "/jobs/1/complete", api.keys["worker"], {"lease_token": held["lease_token"]})
        assert_is_problem(late, 409, "lease-lost")
        (attempt,) = ask(api.url, "/jobs/1", api.keys["admin"]).json["attempts"]
        assert (attempt["outcome"], attempt["ended_at"]) == ("lease_expired", "2026-01-31T12:00:30.000Z")


def test_a_file_of_the_first_release_is_brought_up_to_date_by_the_schedule(tmp_path: Path) -> None:
    first_release.make_file(tmp_path / "queue.db")
    add_jobs(tmp_path / "queue.db", 3)
    with LocalApi(tmp_path, clock=SteppedClock()) as api:
        assert_is_problem(ask(api.url, "/stats", api.keys["admin"]), 503, "storage-unavailable")
        api.run_schedules()
        (row,) = ask(api.url, "/stats", api.keys["admin"]).json["jobs"]
    assert (row["status"], row["count"]) == ("pending", 3)


def test_without_a_clock_it_sweeps_from_the_start(running: Process) -> None:
    def messages() -> list[str]:
        log = (running.data / "functions.log").read_text()
        return [json.loads(line).get("message", "") for line in log.splitlines(keepends=True) if line.endswith("\n")]

    while "sweep" not in messages():
        time.sleep(0.02)
    assert "backup" not in messages()
    assert running.err == ""


def scheduled(template: Path, name: str, expression: str, variables: str = "{}") -> None:
    """Add a function with a schedule to a template."""
    with template.open("a") as file:
        file.write(
            f"""
  {name.title()}Function:
    Type: AWS::Serverless::Function
    Properties:
      Handler: tick.{name}
      Timeout: 900
      Environment: {{Variables: {variables}}}
      Events: {{Often: {{Type: ScheduleV2, Properties: {{ScheduleExpression: "{expression}", OmitName: true}}}}}}
"""
        )
    code = template.parent / "code/tick.py"
    code.write_text(TICK)


TICK = """
import json, os, pathlib

def tick(event, context):
    told = {"event": event, "remaining": context.get_remaining_time_in_millis()}
    with pathlib.Path(os.environ["QUEUELOG_DATABASE"]).with_name("ticks").open("a") as file:
        file.write(json.dumps(told) + "\\n")

def fail(event, context):
    raise ValueError("no luck")
"""


def ticks(data: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in (data / "ticks").read_text().splitlines(keepends=True) if "\n" in line]
    except FileNotFoundError:
        return []


def test_a_schedule_sends_what_eventbridge_sends(tmp_path: Path, small: Path) -> None:
    scheduled(small, "tick", "rate(1 minute)")
    with LocalApi(tmp_path / "data", template=small, clock=SteppedClock()) as api:
        for _ in range(2):
            api.run_schedules()
    first, second = ticks(tmp_path / "data")
    sent = json.loads((ROOT / "events/sweep.json").read_text())
    assert list(first["event"]) == list(sent)
    constant = ("version", "detail-type", "source", "detail")
    assert [first["event"][name] for name in constant] == [sent[name] for name in constant]
    assert first["event"]["time"] == "2026-01-31T12:00:00Z"
    assert first["event"]["resources"][0].endswith(":schedule/default/TickFunctionOften")
    assert first["event"]["id"] != second["event"]["id"]
    # Requests wait meanwhile, so it is told that it has seconds and not the quarter of an hour that Lambda gives it.
    assert 0 < first["remaining"] <= 6_000


def test_a_schedule_begins_with_the_api_and_ends_with_it(tmp_path: Path, small: Path) -> None:
    scheduled(small, "tick", "rate(2 hours)")
    with LocalApi(tmp_path / "data", template=small):
        while not ticks(tmp_path / "data"):
            time.sleep(0.01)
    assert len(ticks(tmp_path / "data")) == 1
    assert not any(thread.name == "TickFunction" for thread in threading.enumerate())


def test_a_scheduled_function_that_raises_takes_nothing_with_it(
    tmp_path: Path, small: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scheduled(small, "fail", "rate(1 day)")
    lines: list[str] = []
    with LocalApi(tmp_path / "data", template=small, report=lines.append) as api:
        while not lines:
            time.sleep(0.01)
        assert ask(api.url, "/echo/7", "any", {}).status == 200
        with pytest.raises(FunctionFailedError):
            api.run_schedules()
    assert lines[0] == "FailFunction failed; it is called again in 1 day, 0:00:00."
    assert "ValueError: no luck" in capfd.readouterr().err


def test_a_function_that_needs_a_bucket_is_not_called(tmp_path: Path, small: Path) -> None:
    scheduled(small, "tick", "cron(17 3 * * ? *)", "{QUEUELOG_BACKUP_BUCKET: !Ref Bucket}")
    with LocalApi(tmp_path / "data", template=small, clock=SteppedClock()) as api:
        api.run_schedules()
        environment = ask(api.url, "/echo/7", "any", {}).json["environment"]
    assert ticks(tmp_path / "data") == []
    assert "QUEUELOG_BACKUP_BUCKET" not in environment


def test_a_schedule_that_is_no_rate_stops_it(tmp_path: Path, small: Path) -> None:
    scheduled(small, "tick", "cron(17 3 * * ? *)")
    with pytest.raises(CannotStartError, match=r"cron\(17 3"), LocalApi(tmp_path / "data", template=small):
        pass


def test_each_local_api_has_its_own_queue(tmp_path: Path) -> None:
    with LocalApi(tmp_path / "one") as one, LocalApi(tmp_path / "two") as two:
        job = ask(one.url, "/jobs", one.keys["producer"], EMAIL).json
        assert ask(one.url, f"/jobs/{job['id']}", one.keys["admin"]).status == 200
        assert ask(two.url, f"/jobs/{job['id']}", two.keys["admin"]).status == 404
        assert ask(two.url, "/jobs", one.keys["admin"]).status == 401


def test_bytes_that_are_not_utf_8_are_the_functions_own_400(running: Process) -> None:
    answer = ask(running.url, "/jobs", running.keys["producer"], b'{"type": "\xff"}')
    assert_is_problem(answer, 400, "invalid-json")


class Caller:
    """Calls every route in turn with a key of its own, and finds out whether an answer is another caller's."""

    def __init__(self, url: str, name: str, key: str) -> None:
        self.url = url
        self.name = name
        self.key = key

    def call_every_route(self, turn: int) -> int:
        """Return how many answers came, all of them its own."""
        mine = {"caller": self.name, "turn": turn}
        answers = [self._ask(201, "/jobs", {"type": "email", "payload": mine, "idempotency_key": f"turn {turn}"})]
        made = answers[0]
        assert (made["payload"], made["created_by"], made["idempotency_key"]) == (mine, self.name, f"turn {turn}")
        # Each turn takes at most five jobs out of the queue, so that it never runs dry.
        answers.append(self._ask(201, "/jobs", {"type": "pdf"}))
        batch = [{"type": "pdf", "payload": mine | {"item": item}} for item in range(4)]
        answers.append(self._ask(200, "/batch/enqueue", {"jobs": batch}))
        assert [each["job"]["payload"] for each in answers[-1]["jobs"]] == [each["payload"] for each in batch]
        answers += self._call_off(mine)
        answers.append(self._ask(200, f"/jobs/{made['id']}"))
        assert (answers[-1]["id"], answers[-1]["payload"]) == (made["id"], mine)
        answers.append(self._ask(200, "/jobs?limit=5"))
        assert all(self.name in (job.get("created_by"), job["worker_id"]) for job in answers[-1]["jobs"])
        for verb, statuses in (("complete", ["completed"]), ("fail", ["pending", "failed"])):
            held = self._ask(200, "/jobs/claim", {})
            assert (held["status"], held["worker_id"]) == ("running", self.name)
            path = f"/jobs/{held['id']}/{verb}"
            done = self._ask(200, path, {})
            assert done["id"] == held["id"]
            assert done["status"] in statuses
            answers += [held, done, self._refusal(409, path, {})]
        answers += self._hold_several()
        answers.append(self._ask(200, "/health"))
        answers.append(self._refusal(404, f"/jobs/{self.name}"))
        answers.append(self._refusal(403, "/stats"))
        answers.append(self._refusal(403, "/batch/retry", {"status": "failed"}))
        answers.append(self._refusal(401, "/iam/jobs"))
        answers.append(self._ask(401, "/jobs", key="wrong"))
        return len(answers)

    def _call_off(self, mine: dict[str, Any]) -> list[Any]:
        # Nobody can claim it meanwhile.
        late = self._ask(201, "/jobs", {"type": "sync", "payload": mine, "delay_seconds": 3_600})
        path = f"/jobs/{late['id']}"
        explained = self._ask(200, f"{path}/explain")
        assert [reason["code"] for reason in explained["reasons"]] == ["delayed"]
        cancelled = self._ask(200, f"{path}/cancel", {})
        assert (cancelled["id"], cancelled["payload"], cancelled["status"]) == (late["id"], mine, "cancelled")
        return [late, explained, cancelled, self._refusal(409, f"{path}/cancel", {})]

    def _hold_several(self) -> list[Any]:
        claimed = self._ask(200, "/batch/claim", {"limit": 2})
        assert [job["worker_id"] for job in claimed["jobs"]] == [self.name] * 2
        held = [{"id": job["id"], "lease_token": job["lease_token"]} for job in claimed["jobs"]]
        beaten = self._ask(200, "/batch/heartbeat", {"jobs": held})
        assert [each["code"] for each in beaten["jobs"]] == [200, 200]
        finished = self._ask(200, "/batch/finish", {"jobs": [{**each, "outcome": "completed"} for each in held]})
        assert [each["job"]["id"] for each in finished["jobs"]] == [each["id"] for each in held]
        again = self._ask(200, "/jobs/claim", {})
        token = {"lease_token": again["lease_token"]}
        path = f"/jobs/{again['id']}"
        beat = self._ask(200, f"{path}/heartbeat", {**token, "progress": {"caller": self.name}})
        assert beat["lease_expires_at"] >= again["lease_expires_at"]
        released = self._ask(200, f"{path}/release", token)
        assert (released["id"], released["status"]) == (again["id"], "pending")
        return [claimed, beaten, finished, again, beat, released]

    def _ask(self, status: int, path: str, body: object = None, key: str | None = None) -> Any:
        answer = ask(self.url, path, key or self.key, body)
        assert answer.status == status, (self.name, path, answer)
        return answer.json

    def _refusal(self, status: int, path: str, body: object = None) -> Any:
        problem = self._ask(status, path, body)
        assert problem["instance"] == path
        return problem


def call_at_once(api: Process, clients: int, turns: int) -> int:
    """Let that many callers take their turns at the same time, and return how many answers came."""
    names = [f"caller-{number}" for number in range(clients)]
    registry = api.data / "principals.json"
    callers = [Caller(api.url, name, create(registry, name, ["producer", "worker"])) for name in names]
    with ThreadPoolExecutor(clients) as threads:
        counts = threads.map(lambda caller: sum(map(caller.call_every_route, range(turns))), callers)
        return sum(counts)


def test_no_answer_belongs_to_another_caller(tmp_path: Path) -> None:
    local = Process(tmp_path)
    with local.serving():
        assert call_at_once(local, clients=8, turns=4) == 8 * 4 * 27
    assert local.err == ""
