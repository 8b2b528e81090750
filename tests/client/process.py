"""A worker in a process of its own: python -m tests.client.process, which is told what to do in lines of JSON.

Each line is a worker to be: it is forked off, since Python starts slowly, and works on url with key, or on the file
database. It tells its pid, what its handlers do, and its end. die_at names the moment at which it kills itself.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import queuelog
from queuelog_client import QueueClient, RunningJob, Worker

if TYPE_CHECKING:
    from queuelog_client import WorkQueue

#: Each moment in the life of a job at which its worker can go.
MOMENTS = ["before claim_jobs", "after claim_jobs", "in the handler", "before finish_jobs", "after finish_jobs"]


def tell(*words: object) -> None:
    # One write for a line, since threads and forks share it.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Told(logging.Handler):
    """What the client logs, told as the rest is."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("log", record.getMessage())


class Mortal:
    """A queue whose user may be killed before or after a verb."""

    def __init__(self, queue: WorkQueue, die_at: str | None) -> None:
        self._queue = queue
        self._die_at = die_at

    def die_if(self, moment: str) -> None:
        if moment == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def claim_jobs(self, **options: Any) -> Any:
        self.die_if("before claim_jobs")
        claimed = self._queue.claim_jobs(**options)
        self.die_if("after claim_jobs")
        return claimed

    def finish_jobs(self, endings: Any, /) -> Any:
        self.die_if("before finish_jobs")
        outcomes = self._queue.finish_jobs(endings)
        self.die_if("after finish_jobs")
        return outcomes

    def heartbeat_jobs(self, beats: Any, /) -> Any:
        return self._queue.heartbeat_jobs(beats)


def work(
    url: str | None = None, key: str | None = None, database: str | None = None, die_at: str | None = None, **run: Any
) -> None:
    queue: WorkQueue
    if url is not None:
        queue = QueueClient(url, api_key=key)
    else:
        roles = frozenset({queuelog.Role.WORKER})
        principal = queuelog.Principal(name="worker", roles=roles)
        queue = queuelog.Queue(queuelog.Store(Path(str(database)))).bound(principal)
    mortal = Mortal(queue, die_at)
    worker = Worker(
        mortal,
        concurrency=run.pop("concurrency", 2),
        grace=run.pop("grace", 1.0),
        lease_seconds=run.pop("lease_seconds", None),
        max_wait=0.05,
    )

    @worker.task("email")
    def quick(job: RunningJob) -> str:
        tell("began", job.id)
        mortal.die_if("in the handler")
        time.sleep(0.005)
        return "sent"

    @worker.task("pdf")
    def endless(job: RunningJob) -> None:
        tell("began", job.id)
        # Not even a cancellation makes it stop.
        threading.Event().wait(600)

    tally = worker.run(**run)
    tell("tally", tally.claimed, tally.completed, tally.failed, tally.released, tally.lost)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(**json.loads(line))
                status = 0
            finally:
                os._exit(status)
        tell("pid", child)
        _, status = os.waitpid(child, 0)
        tell("over", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, handlers=[Told()])
    if len(sys.argv) > 1:
        # As a user's own program would: the interpreter ends by itself.
        work(**json.loads(sys.argv[1]))
    else:
        main()
