from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from samcli.local.docker.utils import get_validated_container_client

from tests.support import PYTHONPATH, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: Seconds that something which has to come may take, on a machine that has other things to do.
PATIENCE = 120
#: The bucket of the tests that need one.
BUCKET = "queuelog-tests"


def until(happened: Callable[[], Any], what: str) -> Any:
    """Return what `happened` returns once that is true; fail when it never is."""
    end = time.monotonic() + PATIENCE
    while not (result := happened()):
        assert time.monotonic() < end, f"{what} never came"
        time.sleep(0.02)
    return result


class Invocation(NamedTuple):
    """What a function answered, and how long a new container took for it."""

    answer: Any
    init_milliseconds: float
    call_milliseconds: float
    log: str


@dataclass
class Lab:
    """How the tests start SAM CLI: with this base image, and with nothing of AWS's but what a test gives."""

    image: str | None
    scratch: Path

    def environment(self, data: Path, settings: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "QUEUELOG_"))}
        return {
            **inherited,
            **({"IMAGE": self.image} if self.image else {}),
            # Where SAM CLI looks for credentials.
            "HOME": str(self.scratch),
            "AWS_EC2_METADATA_DISABLED": "true",
            "DATA_DIR": str(data),
            "PYTHONPATH": PYTHONPATH,
            **settings,
        }

    def run(self, command: list[str], data: Path, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment(data, settings),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def invoke(self, function: str, event: Path, data: Path, **settings: str) -> Invocation:
        """Call a function once, in a container of its own."""
        settings |= {"FUNCTION": function, "EVENT": str(event), "SAM_CLI_RIE_DEV": "1"}
        done = self.run([sys.executable, "-m", "local.sam", "invoke"], data, **settings)
        assert done.returncode == 0, done.stderr
        # What Lambda's emulator says only when it is asked to. The `Init Duration` of its REPORT line means nothing.
        (init,) = re.findall(r"INIT REPORT\(durationMs: ([0-9.]+)\)", done.stderr)
        (call,) = re.findall(r"INVOKE RTDONE\(.*duration: ([0-9.]+)ms\)", done.stderr)
        return Invocation(json.loads(done.stdout), float(init), float(call), done.stderr)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: Any


@dataclass
class Api:
    """`make sam-api`: all functions over one file, each in a container of its own."""

    data: Path
    port: int
    log: Path
    keys: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        key: str | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; key: the role whose key it carries, or else the key itself."""
        sent = dict(headers or {})
        if key is not None:
            sent["X-Api-Key"] = self.keys.get(key, key)
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        return Answer(response.status, response.headers, json.loads(content) if content else None)

    def get(self, path: str, key: str) -> Any:
        return self._success(self.ask("GET", path, key))

    def post(self, path: str, key: str, body: object = None) -> Any:
        return self._success(self.ask("POST", path, key, body))

    @staticmethod
    def _success(answer: Answer) -> Any:
        assert answer.status in {200, 201}, answer
        return answer.body

    def containers(self, function: str | None = None) -> list[Any]:
        """Return this API's containers, those that have ended included; or only a function's."""
        label = f"sam.cli.function.name={function}" if function else "sam.cli.container.type=lambda"
        filters = {"label": label, "volume": str(self.data)}
        return list(get_validated_container_client().containers.list(all=True, filters=filters))


@contextmanager
def sam_api(lab: Lab, directory: Path) -> Iterator[Api]:
    """Run `make sam-api` until its end, which takes every container with it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    api = Api(directory / "data", port, directory / "log.txt")
    with api.log.open("wb") as log:
        process = subprocess.Popen(
            ["make", "sam-api"],
            cwd=ROOT,
            env=lab.environment(api.data, {"PORT": str(port)}),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: _is_up(process, api), "the API")
        api.keys = json.loads((api.data / "keys.json").read_text())
        yield api
    finally:
        # To make and all that it started, as a terminal does.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)
        until(lambda: _is_gone(process.pid), "the end of SAM CLI")
        left = api.containers()
        for container in left:
            container.remove(force=True)
    assert [container.labels["sam.cli.function.name"] for container in left] == []


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _is_up(process: subprocess.Popen[bytes], api: Api) -> bool:
    assert process.poll() is None, api.log.read_text()
    try:
        return api.ask("GET", "/health").status == 200
    except ConnectionRefusedError:
        return False
