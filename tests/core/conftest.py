from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from queuelog import BoundQueue, Queue, Store
from queuelog.store import network_file
from tests.support import SteppedClock, admin, directory_in_memory, producer, worker

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same examples at every run, so that a failure is everyone's; and no deadline, since machines differ.
settings.register_profile("queuelog", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("queuelog")


@pytest.fixture(autouse=True)
def without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    # How long a process leaves the lock to others changes nothing of what its transactions do.
    monkeypatch.setattr(network_file, "REST", 0.0)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def path() -> Iterator[Path]:
    with directory_in_memory() as folder:
        yield Path(folder) / "queue.db"


@pytest.fixture(params=[False, True], ids=["local", "network"])
def network(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def store(path: Path, network: bool) -> Iterator[Store]:
    store = Store(path, network=network, busy_timeout=0.05, jitter=lambda: 0.0)
    yield store
    store.close()


@pytest.fixture
def queue(store: Store) -> Queue:
    return Queue(store)


@pytest.fixture
def as_producer(queue: Queue, clock: SteppedClock) -> BoundQueue:
    return queue.bound(producer(), clock)


@pytest.fixture
def as_worker(queue: Queue, clock: SteppedClock) -> BoundQueue:
    return queue.bound(worker(), clock)


@pytest.fixture
def as_admin(queue: Queue, clock: SteppedClock) -> BoundQueue:
    return queue.bound(admin(), clock)
