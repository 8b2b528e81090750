"""What `make sam-api` and `make sam-invoke` say before they start anything; tests/containers has what they start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from local.data import DataDirectory
from local.errors import CannotStartError
from local.sam import CALLER, _caller, _user, architecture_of, main
from tests.support import PYTHONPATH, ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("port", ["x", "65536", "-1"])
def test_a_port_that_is_none_is_a_sentence(port: str) -> None:
    with pytest.raises(SystemExit, match="PORT must be a number from 0"):
        main("start-api", {"PORT": port})


@pytest.mark.parametrize("command", ["start-api", "invoke"])
def test_without_a_docker_engine_it_says_what_to_install_and_fails(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    launched = subprocess.run(
        [sys.executable, "-m", "local.sam", command],
        cwd=ROOT,
        env={
            "DATA_DIR": str(data),
            "DOCKER_HOST": f"unix://{tmp_path}/docker.sock",
            "EVENT": "events/health.json",
            "FUNCTION": "HealthFunction",
            "HOME": str(tmp_path),
            "PATH": os.defpath,
            "PYTHONPATH": PYTHONPATH,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (launched.returncode, launched.stdout) == (1, "")
    assert launched.stderr == (
        "No Docker engine answers: install one (on Debian: apt-get install docker.io), start it (dockerd), "
        "and see that you may use its socket.\n"
    )
    assert not data.exists()


@pytest.mark.parametrize("settings", [{}, {"FUNCTION": "HealthFunction"}, {"EVENT": "events/health.json"}])
def test_a_call_needs_a_function_and_an_event(settings: dict[str, str]) -> None:
    # Text makes Python print it and end with 1.
    with pytest.raises(SystemExit, match=r"^Say which function to call, and with which event, as in: make sam-invoke"):
        main("invoke", settings)


def test_functions_run_as_whoever_the_queue_belongs_to_unless_the_engine_sees_to_that(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.prepare()
    assert _user(data, {"SecurityOptions": ["name=seccomp,profile=default"]}) == f"{os.getuid()}:{os.getgid()}"
    assert _user(data, {"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}) is None


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "x86_64"), ("aarch64", "arm64"), ("arm64", "arm64")])
def test_functions_run_on_the_processor_of_the_engine(machine: str, architecture: str) -> None:
    assert architecture_of({"Architecture": machine}) == architecture


def test_a_function_that_calls_the_api_is_told_where_it_is_and_no_other_is(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.prepare()
    desktop = {"OperatingSystem": "Docker Desktop"}
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as ending:
        port = str(listener.getsockname()[1])
        assert _caller({"FUNCTION": "SweepFunction", "PORT": port}, desktop, data, ending) == {}
        assert _caller({"FUNCTION": "WorkFunction", "PORT": port}, desktop, data, ending) == {
            CALLER: f"http://host.docker.internal:{port}",
            "QUEUELOG_API_KEY": data.read_keys()["worker"],
            "QUEUELOG_DOCUMENT_BUCKET": "",
        }
    with pytest.raises(CannotStartError, match=f"Nothing listens on port {port}, and this function calls the API"):
        _caller({"FUNCTION": "WorkFunction", "PORT": port}, desktop, data, ExitStack())
