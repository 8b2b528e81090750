"""The demo itself: enqueue, let workers work, do them harm, and look at what is left."""

from __future__ import annotations

import random
import time
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from local.demo.account import ENDED, settle
from local.demo.crew import Death
from local.demo.notes import NoteReader, Word
from local.demo.plan import SEED, Fate
from local.demo.view import Result, Scene, in_the_middle_of
from queuelog_client.job import MAX_BATCH

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from local.demo.crew import Crew
    from local.demo.plan import Planned
    from local.demo.view import View
    from queuelog_client import Enqueued, QueueClient

#: What hasn't ended by then is taken for lost.
PATIENCE_SECONDS = 300.0
_TICK_SECONDS = 0.1
#: How long a job that goes on is left to go on.
_CALL_OFF_SECONDS = 0.5


class StoppedError(Exception):
    """Somebody wants the demo to end."""


class Show:
    """One run of the demo."""

    def __init__(
        self, plan: Sequence[Planned], queue: QueueClient, crew: Crew, view: View, stop: threading.Event
    ) -> None:
        """Take a client who may do everything, and workers that have not begun."""
        self._plan = plan
        self._queue = queue
        self._crew = crew
        self._view = view
        self._stop = stop
        self._notes = NoteReader(crew.notes)
        #: What each process is in the middle of.
        self._open: dict[int, list[int]] = {}
        self._scene = Scene(total=len(plan))
        self._dice = random.Random(SEED)  # noqa: S311
        self._harm = self._planned_harm()
        #: When each job that goes on is called off.
        self._to_call_off: dict[int, float] = {}

    def run(self) -> Result:
        """Play it to its end; raise StoppedError, WorkersFailedError, or an error of the queue."""
        self._check_stop()
        began = time.monotonic()
        repeated = self._enqueue()
        with self._crew:
            while self._scene.count(*ENDED) < len(self._plan) and time.monotonic() < began + PATIENCE_SECONDS:
                self._wait()
                self._look()
                self._call_off()
                self._do_harm()
                self._view.show(self._scene)
            seconds = time.monotonic() - began
        self._view.say("counting")
        self._view.show(self._scene)
        self._notes.read()
        jobs = []
        for job in self._queue.iterate():
            self._check_stop()
            jobs.append(self._queue.get(job.id))
        account = settle(self._plan, repeated, jobs, self._notes.notes)
        return Result(account, self._crew.deaths, len(repeated), seconds)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise StoppedError

    def _wait(self) -> None:
        if self._stop.wait(_TICK_SECONDS):
            raise StoppedError

    def _planned_harm(self) -> list[tuple[int, Callable[[int], None]]]:
        """Return the numbers of ended jobs at which a worker is killed, or stopped as a deploy does."""
        count = len(self._plan)
        kills, stops = max(1, count // 25), max(1, count // 100)
        moments = self._dice.sample(range(count // 20, count * 4 // 5), kills + stops)
        harm = [self._crew.kill] * kills + [self._end] * stops
        return sorted(zip(moments, harm, strict=True), key=itemgetter(0))

    def _enqueue(self) -> list[Enqueued]:
        jobs = [each.job for each in self._plan]
        made = [
            each
            for start in range(0, len(jobs), MAX_BATCH)
            for each in self._queue.enqueue_jobs(jobs[start : start + MAX_BATCH])
        ]
        for planned, answer in zip(self._plan, made, strict=True):
            if planned.fate is Fate.GOES_ON:
                self._to_call_off[answer.job.id] = float("inf")
        again = self._dice.sample(jobs, len(jobs) // 10)
        repeated = [self._queue.enqueue(job) for job in again]
        self._view.say(f"{len(jobs)} jobs enqueued, {len(again)} of them twice under one idempotency key")
        return repeated

    def _look(self) -> None:
        # Before the notes, which then hold the last words of these.
        ended = self._crew.tend()
        for note in self._notes.read():
            jobs = self._open.setdefault(note.pid, [])
            if note.word is not Word.BEGAN:
                jobs.remove(note.job)
                continue
            jobs.append(note.job)
            if note.job in self._to_call_off:
                self._to_call_off[note.job] = time.monotonic() + _CALL_OFF_SECONDS
        for number, pid, death in ended:
            jobs = self._open.pop(pid, [])
            if death is not Death.STOPPED:
                self._view.say(f"worker {number} {death} {in_the_middle_of(jobs)}", "red")
        self._scene.workers = {number: self._open.get(pid, []) for number, pid in self._crew.pids.items()}
        self._scene.jobs = Counter()
        for each in self._queue.stats().jobs:
            self._scene.jobs[each.priority, each.status] += each.jobs

    def _call_off(self) -> None:
        for job, moment in list(self._to_call_off.items()):
            if time.monotonic() >= moment:
                del self._to_call_off[job]
                self._queue.cancel(job)
                self._view.say(f"job {job} called off", "yellow")

    def _do_harm(self) -> None:
        busy = [number for number, jobs in self._scene.workers.items() if jobs]
        if self._harm and busy and self._scene.count(*ENDED) >= self._harm[0][0]:
            _, harm = self._harm.pop(0)
            harm(self._dice.choice(busy))

    def _end(self, number: int) -> None:
        self._crew.stop(number)
        self._view.say(f"worker {number} stopped (SIGTERM) {in_the_middle_of(self._scene.workers[number])}", "yellow")
