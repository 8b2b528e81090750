from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import queuelog
import queuelog_client
from benchmarks._contenders.contender import Contender
from queuelog import Principal, Queue, Role, Store
from queuelog_client import QueueClient, Tasks, Worker

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Handle
    from queuelog_client import WorkQueue


class Core(Contender):
    """Its own way on a local disk: the core's queue over the file, and the client's worker over that."""

    def __init__(self, where: str, patience: int) -> None:
        caller = Principal(name="bench", roles=frozenset({Role.PRODUCER, Role.WORKER}))
        self._queue = Queue(Store(Path(where, "queue.db"), network=False)).bound(caller)
        self._patience = patience

    def enqueue(self, number: int) -> None:
        self._queue.enqueue(queuelog.NewJob(type="email", payload={"number": number}))

    def work(self, threads: int, handle: Handle) -> None:
        do_jobs(self._queue, threads, handle, self._patience)


class Api(Contender):
    """The client over HTTP, to an API that is another process."""

    def __init__(self, where: str, patience: int) -> None:
        api = json.loads(where)
        self._producer = QueueClient(api["url"], api_key=api["producer"])
        self._worker = QueueClient(api["url"], api_key=api["worker"])
        self._patience = patience

    def enqueue(self, number: int) -> None:
        self._producer.enqueue(queuelog_client.NewJob(type="email", payload={"number": number}))

    def work(self, threads: int, handle: Handle) -> None:
        do_jobs(self._worker, threads, handle, self._patience)


def do_jobs(queue: WorkQueue, threads: int, handle: Handle, lease_seconds: int) -> None:
    tasks = Tasks({"email": lambda job: handle(job.payload["number"])})
    worker = Worker(queue, tasks, concurrency=threads, lease_seconds=lease_seconds)
    worker.run(until_empty=True)
