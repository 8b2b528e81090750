from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import health
import web.app
from tests.http.support import ROLE_ARNS, Api
from tests.support import SteppedClock, directory_in_memory
from web.settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from logging import StreamHandler


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return pytest's, but in memory: each of a thousand tests makes a database, and would wait for the disk."""
    with directory_in_memory() as folder:
        path = Path(folder)
        # Unlike pytest's, for other users too: a fault of permissions needs one.
        path.chmod(0o755)
        yield path


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The functions in a sandbox that has just started, with an empty file system."""
    database = tmp_path / "queue.db"
    monkeypatch.setenv("QUEUELOG_DATABASE", str(database))
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "email,pdf,sync")
    for role, arns in ROLE_ARNS.items():
        monkeypatch.setenv(f"QUEUELOG_{role}_ROLE_ARNS", arns)
    # Powertools reads its variables when it is imported, which another test may have done.
    monkeypatch.setattr(web.app.metrics.provider, "namespace", "Queuelog")
    monkeypatch.setattr(health, "_seen", (-health.KEPT, False))
    forget()
    yield Api(database, SteppedClock())
    forget()


def forget() -> None:
    """Close the file, and make the next request read the environment as a new sandbox would."""
    if web.app.store.cache_info().currsize:
        web.app.store().close()
    settings.cache_clear()
    web.app.store.cache_clear()


class Log:
    """What the functions have logged."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    stream = io.StringIO()
    handler = cast("StreamHandler[Any]", web.app.logger.registered_handler)
    earlier = handler.setStream(stream)
    yield Log(stream)
    handler.setStream(earlier)
