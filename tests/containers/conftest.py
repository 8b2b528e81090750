"""What these tests need besides the development dependencies: a Docker engine, and what `sam build` has built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from moto.server import ThreadedMotoServer

from local.errors import CannotStartError
from local.sam import architecture_of, engine_info, gateway_address
from tests.containers.base_image import NoImageError, base_image
from tests.containers.support import BUCKET, Lab, sam_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.containers.support import Api

REPORT = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are printed when all is over."""
    return pytestconfig.stash.setdefault(REPORT, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(REPORT, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """SAM CLI with a base image; without an engine or an image, no test can be run."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    try:
        image = base_image(architecture_of(engine_info()), say)
    except (CannotStartError, NoImageError) as error:
        pytest.exit(str(error), returncode=1)
    say(f"Base image: {image.description}.")
    return Lab(image.tag, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def api(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with sam_api(lab, tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A bucket that this machine serves to containers; what the settings have to be for it."""
    server = ThreadedMotoServer(gateway_address(), port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    yield {**settings, "QUEUELOG_BACKUP_BUCKET": BUCKET}
    server.stop()
