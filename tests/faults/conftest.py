from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import web.app
from queuelog import Store
from tests.faults.support import Site
from tests.http.conftest import api, log
from tests.support import directory_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http.conftest import Log
    from tests.http.support import Api

__all__ = ["api", "log"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as folder:
        path = Path(folder)
        # Unlike pytest's, for other users too: a fault of permissions needs one.
        path.chmod(0o755)
        yield path


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Which way the functions use the file."""
    monkeypatch.setattr(web.app, "Store", partial(Store, network=bool(request.param), busy_timeout=0.2))
    return bool(request.param)


@pytest.fixture
def site(network: bool, api: Api, log: Log) -> Site:
    """A queue that has been in use: a worker holds the first of its jobs."""
    return Site(api, log)
