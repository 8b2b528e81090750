from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks._contenders.contender import Contender

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Handle

#: As many as there are threads at the most, and one that listens.
CONNECTIONS = 17


class Procrastinate(Contender):
    """Its asynchronous worker, with a synchronous producer as in a web application."""

    def __init__(self, where: str, patience: int) -> None:
        super().__init__(where, patience)
        self._patience = patience
        self._handle: Handle = print
        self._producer = App(connector=SyncPsycopgConnector(conninfo=where, max_size=CONNECTIONS))
        self._producer.open()
        if not self._producer.check_connection():
            self._producer.schema_manager.apply_schema()
        self._worker = App(connector=PsycopgConnector(conninfo=where, max_size=CONNECTIONS))
        self._worker.task(name="job")(self._do)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._worker.open_async())

    def _do(self, number: int) -> None:
        self._handle(number)

    def enqueue(self, number: int) -> None:
        self._producer.configure_task("job").defer(number=number)

    def work(self, threads: int, handle: Handle) -> None:
        self._handle = handle
        self._loop.run_until_complete(
            self._worker.run_worker_async(concurrency=threads, wait=False, install_signal_handlers=False)
        )

    def recover(self) -> None:
        self._loop.run_until_complete(self._retry_stalled())

    def close(self) -> None:
        self._producer.close()
        self._loop.run_until_complete(self._worker.close_async())

    async def _retry_stalled(self) -> None:
        for job in await self._worker.job_manager.get_stalled_jobs(seconds_since_heartbeat=self._patience):
            await self._worker.job_manager.retry_job(job)
