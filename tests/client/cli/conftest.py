from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from queuelog_client import Retries
from queuelog_client.cli import settings
from tests.client.cli.support import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.support import Stack


@pytest.fixture
def shell(stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A shell whose profiles are this test's own, and in which nobody waits for what doesn't answer."""
    monkeypatch.setattr(settings, "RETRIES", Retries(count=0))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Shell(stack)
