"""A worker of the demo, in a process of its own: python -m local.demo.worker NOTES, with the queue in the environment.

It does to itself what its jobs say, and notes what it does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from local.demo.notes import NoteWriter, Word
from local.demo.plan import TYPES, Fate
from local.settings import STOP_SIGNALS
from queuelog_client import Cancelled, Permanent, QueueClient, Tasks, Worker

if TYPE_CHECKING:
    from queuelog_client import RunningJob

#: The exit code of a worker that a job has crashed.
CRASHED = 70
CONCURRENCY = 4
#: Short, so that what a dead worker held is soon with another one.
LEASE_SECONDS = 1
#: Shorter than most jobs, so that a worker that is stopped has something to give back.
GRACE = 0.1


class _Handler:
    def __init__(self, notes: NoteWriter) -> None:
        self._notes = notes

    def __call__(self, job: RunningJob) -> str:
        self._note(Word.BEGAN, job)
        try:
            _do(job)
        except Cancelled:
            self._note(Word.STOPPED, job)
            raise
        except Exception:
            self._note(Word.RAISED, job)
            raise
        self._note(Word.DID, job)
        return "done"

    def _note(self, word: Word, job: RunningJob) -> None:
        self._notes.write(word, job.id, job.attempt)


def _do(job: RunningJob) -> None:
    fate = Fate(job.payload["fate"])
    time.sleep(job.payload["seconds"])
    is_first = job.attempt == 1
    if fate is Fate.GOES_ON:
        job.cancelled.wait()
        job.raise_if_cancelled()
    if fate is Fate.CRASHES or (fate is Fate.CRASHES_AT_FIRST and is_first):
        os._exit(CRASHED)
    if fate is Fate.FAILS_FOR_GOOD:
        raise Permanent("no such address")
    if fate is Fate.FAILS or (fate is Fate.FAILS_AT_FIRST and is_first):
        raise TimeoutError("the mail server did not answer")


def main() -> None:
    """Work until SIGTERM, a crash, or the end of the demo."""
    # The demo holds these back, and a process begins with what its parent holds back.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    queue = QueueClient(os.environ["QUEUELOG_URL"], api_key=os.environ["QUEUELOG_API_KEY"])
    tasks = Tasks(dict.fromkeys(TYPES, _Handler(NoteWriter(Path(sys.argv[1])))))
    Worker(queue, tasks, concurrency=CONCURRENCY, lease_seconds=LEASE_SECONDS, grace=GRACE, max_wait=0.2).run()


def _end_with_the_demo() -> None:
    # Nobody writes there; it ends when the demo does, however that dies. Not through sys.stdin: Python aborts when it
    # exits while a thread waits there.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
