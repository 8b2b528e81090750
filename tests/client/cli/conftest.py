from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from queuelog_client import Retries
from queuelog_client.cli import settings
from tests.client.cli.support import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.support import Stack


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An AWS account of this test's own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        yield


@pytest.fixture
def shell(stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A shell whose profiles are this test's own, and in which nobody waits for what doesn't answer."""
    monkeypatch.setattr(settings, "RETRIES", Retries(count=0))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Shell(stack)
