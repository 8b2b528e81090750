from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import web.app
from queuelog import Store
from tests.faults.support import Site
from tests.http.conftest import api, log, tmp_path

if TYPE_CHECKING:
    from tests.http.conftest import Log
    from tests.http.support import Api

__all__ = ["api", "log", "tmp_path"]


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Which way the functions use the file."""
    monkeypatch.setattr(web.app, "Store", partial(Store, network=bool(request.param), busy_timeout=0.2))
    return bool(request.param)


@pytest.fixture
def site(network: bool, api: Api, log: Log) -> Site:
    """A queue that has been in use: a worker holds the first of its jobs."""
    return Site(api, log)
