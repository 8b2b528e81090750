"""Calls of the scheduled worker in processes of their own: python -m tests.work.process, told what to do in JSON lines.

Each line is a list of environments, and a process for each is forked off, since Python starts slowly; they run side by
side. It tells the jobs that are begun, what is logged at level ERROR, what each call returned, and how each ended.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import redirect_stdout
from types import SimpleNamespace

import work
from queuelog_client import RunningJob, Tasks
from tasks import Found


def tell(*words: object) -> None:
    # One write for a line, since processes share it.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Told(logging.Handler):
    """What the function logs, told as the rest is."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            tell("log", record.getMessage())


tasks = Tasks()


@tasks.task("email", max_seconds=10)
def quick(job: RunningJob) -> str:
    tell("began", job.id)
    # Long enough that others are held beside it.
    time.sleep(0.02)
    return "sent"


@tasks.task("pdf", max_seconds=10)
def deadly(job: RunningJob) -> None:
    tell("began", job.id)
    # As out of memory, a crash of a library, or the end of all time.
    os.kill(os.getpid(), signal.SIGKILL)


@tasks.task("sync", max_seconds=0.2)
def endless(job: RunningJob) -> None:
    tell("began", job.id)
    threading.Event().wait(600)


def call(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    work.FOUND = Found(tasks, {})
    # The threads that stay will not end in any time.
    work.LAST_STEPS = 0.1
    logging.getLogger(work.logger.name).handlers = [Told()]
    end = time.monotonic() + 300
    context = SimpleNamespace(
        aws_request_id="tick", get_remaining_time_in_millis=lambda: (end - time.monotonic()) * 1_000
    )
    # Its metrics take two writes for a line.
    with redirect_stdout(io.StringIO()):
        tally = work.handler({}, context)
    tell("tally", *tally.values())


def fork(environment: dict[str, str]) -> int:
    child = os.fork()
    if child == 0:
        status = 2
        try:
            call(environment)
            status = 0
        finally:
            os._exit(status)
    return child


def main() -> None:
    for line in sys.stdin:
        for child in [fork(environment) for environment in json.loads(line)]:
            _, status = os.waitpid(child, 0)
            tell("ended", os.waitstatus_to_exitcode(status))
        tell("over")


if __name__ == "__main__":
    main()
