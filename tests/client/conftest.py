from __future__ import annotations

import logging
import os
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings

from local.api import LocalApi
from queuelog_client import QueueClient
from tests.client.support import Stack, Wire, self_signed
from tests.support import SteppedClock, directory_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same examples at every run, so that a failure is everyone's; and no deadline, since machines differ.
settings.register_profile("queuelog", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("queuelog")


@pytest.fixture(scope="session")
def served() -> Iterator[LocalApi]:
    """The local API over a socket; to start it takes longer than most of these tests."""
    with (
        directory_in_memory() as folder,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        LocalApi(folder, clock=SteppedClock()) as api,
    ):
        # Powertools logs to what sys.stdout was in the first test that started a local API, which may be closed; and
        # setStream would flush that.
        for handler in logging.getLogger("queuelog").handlers:
            cast("logging.StreamHandler[Any]", handler).stream = nowhere
        yield api


@pytest.fixture
def stack(served: LocalApi) -> Iterator[Stack]:
    """A queue of this test's own behind that API, with its clock at the start, and a client for each role."""
    served._functions.close()
    for file in served.data.path.glob("queue.db*"):
        file.unlink()
    clock = SteppedClock()
    served._functions._clock = clock
    with ExitStack() as ending:
        clients = {
            role: ending.enter_context(QueueClient(served.url, api_key=served.keys[role]))
            for role in ("producer", "worker", "admin")
        }
        yield Stack(served, clock, **clients)


@pytest.fixture
def wire(stack: Stack) -> Iterator[Wire]:
    """Something between a client and the API that can be told to lose requests and answers."""
    with Wire(stack.api.url) as wire:
        yield wire


@pytest.fixture
def alone() -> Iterator[Wire]:
    """The same with nothing behind it: it has to be told every answer."""
    with Wire(None) as wire:
        yield wire


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose certificate nobody vouches for."""
    pem = tmp_path / "server.pem"
    pem.write_bytes(self_signed("localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with Wire(None) as wire:
        wire.encrypt(context)
        yield wire.url.replace("http://127.0.0.1", "https://localhost")
