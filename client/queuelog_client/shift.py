"""One run of a worker: one thread decides, and others do jobs and wait for the queue.

All that is known of the jobs belongs to the thread that calls `run`. The others hear from it and answer it by queues: a
thread for each job at a time, and one each for claims, heartbeats and endings, so that none of these waits for another.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from queuelog_client.job import MAX_BATCH, OUTCOMES, Beat, Ending
from queuelog_client.tasks import RunningJob, ending_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queuelog_client.tasks import Tasks
    from queuelog_client.verbs import HeldJob, WorkQueue

logger = logging.getLogger("queuelog_client")

#: Seconds that a result waits for others to share its transaction; a network file system does some 20 of them a second.
LINGER = 0.2
#: Seconds of the grace time that are kept for telling the queue what is released, or a third of it if that is less.
FAREWELL = 3.0
#: A stop without grace has so many seconds for the same.
LEAST_GRACE = 1.0
#: Heartbeats in the time of one lease: two can get lost.
BEATS = 3
#: Seconds from the first empty claim to the next; then each wait is twice the last, up to what the queue asks for.
FIRST_WAIT = 1.0
#: An idle worker waits up to this share longer than it was told, so that workers don't come together.
JITTER = 0.2
#: What the pause after an error of the queue grows from, and up to, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0

Message: TypeAlias = "Callable[[Shift], None]"


class WorkerStuck(Exception):
    """Every thread of the worker is lost to a job that went on after its deadline: end the process and start anew."""


@dataclass(slots=True)
class Tally:
    """How many jobs a run has claimed, and how they ended."""

    claimed: int = 0
    completed: int = 0
    failed: int = 0
    released: int = 0
    #: Their lease had ended, so that another worker may have them.
    lost: int = 0

    def count(self, verb: str) -> None:
        """Count one job that was ended by this verb."""
        setattr(self, OUTCOMES[verb], getattr(self, OUTCOMES[verb]) + 1)


class _Held:
    """A job whose lease is this worker's."""

    def __init__(self, job: HeldJob, *, claimed_at: float, max_seconds: float) -> None:
        self.job = RunningJob(job)
        self.token = job.lease_token or ""
        self.max_seconds = max_seconds
        self.deadline = time.monotonic() + max_seconds
        self.interval = _lease_seconds(job) / BEATS
        self.beat_at = claimed_at + self.interval
        #: How it ended, once that is known; then only the queue's word is awaited.
        self.ending: Ending | None = None
        self.ended_at = math.inf
        #: The progress that the queue knows of.
        self.told: dict[str, Any] | None = None

    @property
    def is_overdue(self) -> bool:
        return time.monotonic() >= self.deadline


@dataclass(slots=True)
class _Claim:
    """A claim whose answer has not come; it is asked for again under the same id."""

    limit: int
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    asked_at: float = field(default_factory=time.monotonic)
    is_last: bool = False


class _Line:
    """A thread that makes one kind of call to the queue, one after the other."""

    def __init__(self, name: str, inbox: SimpleQueue[Message]) -> None:
        self.is_busy = False
        self._inbox = inbox
        self._calls: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = SimpleQueue()
        threading.Thread(target=self._serve, name=f"queuelog-{name}", daemon=True).start()

    def ask(self, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Make a call, and let the deciding thread have what came of it: the answer, or the error."""
        self.is_busy = True
        self._calls.put((call, then))

    def close(self) -> None:
        """Let the thread end after its call."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            call, then = asked
            answer: Any
            try:
                answer = call()
            except Exception as error:  # noqa: BLE001  whoever hears the answer logs it
                answer = error
            self._inbox.put(self._message(then, answer))

    def _message(self, then: Callable[[Any], None], answer: Any) -> Message:
        def hear(_: Shift) -> None:
            self.is_busy = False
            then(answer)

        return hear


class Shift:
    """What a worker holds and does between the beginning and the end of one run."""

    def __init__(
        self,
        queue: WorkQueue,
        tasks: Tasks,
        inbox: SimpleQueue[Message],
        *,
        types: Sequence[str],
        concurrency: int,
        lease_seconds: int | None,
        grace: float,
        max_wait: float,
        alone_after: int,
        until_empty: bool,
    ) -> None:
        self._queue = queue
        self._tasks = tasks
        self._inbox = inbox
        self._types = types
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._grace = grace
        self._max_wait = max_wait
        self._alone_after = alone_after
        self._until_empty = until_empty
        self._tally = Tally()

        # By token, since a job can come back while an earlier attempt of it is still in a thread.
        self._held: dict[str, _Held] = {}
        self._in_threads: dict[str, _Held] = {}
        self._ended: dict[str, _Held] = {}
        self._todo: SimpleQueue[_Held | None] = SimpleQueue()
        self._claims, self._beats, self._sends = (_Line(name, inbox) for name in ("claims", "heartbeats", "endings"))

        self._claim: _Claim | None = None
        self._was_let_in = False
        self._is_empty = False
        #: One job at a time, and no claim before it has ended.
        self._is_careful = False
        self._most_sent = MAX_BATCH
        self._is_stopping = False
        self._fatal: Exception | None = None

        # Moments of the monotonic clock.
        self._claim_at = self._send_not_before = self._beat_not_before = 0.0
        self._stop_at = self._give_up_at = self._over_at = math.inf
        self._next_wait = FIRST_WAIT
        self._claim_failures = self._send_failures = self._beat_failures = 0

    def run(self, seconds: float | None) -> Tally:
        """Work until it is over, after so many seconds at the latest; raise what made work impossible."""
        if seconds is not None:
            self._stop_at = time.monotonic() + seconds - self._grace
        for number in range(self._concurrency):
            threading.Thread(target=self._do_jobs, name=f"queuelog-job-{number}", daemon=True).start()
        try:
            # A stop may have come before the beginning.
            self._hear(wait=0.0)
            while not self._is_over():
                self._do_what_is_due(time.monotonic())
                # What was due may have been a stop, and a worker that holds nothing has nobody to wait for.
                self._hear(0.0 if self._is_over() else self._time_left())
        finally:
            for line in (self._claims, self._beats, self._sends):
                line.close()
            for _ in range(self._concurrency):
                self._todo.put(None)
        for held in self._held.values():
            logger.warning("job %s stays held until its lease ends: the queue could not be told", held.job.id)
        if self._fatal is not None:
            raise self._fatal
        return self._tally

    def stop(self, grace: float) -> None:
        """Claim no more, and be over within `grace` seconds."""
        now = time.monotonic()
        if not self._is_stopping:
            logger.info("stopping: %s jobs have %g seconds", len(self._held), grace)
            # A claim whose answer got lost may have given jobs that nobody else knows of.
            self._claim_at = now
        self._is_stopping = True
        self._over_at = min(self._over_at, now + max(grace, LEAST_GRACE))
        farewell = min(FAREWELL, grace / 3)
        self._give_up_at = min(self._give_up_at, now + grace - farewell)

    def came_back(self, held: _Held, ending: Ending) -> None:
        """Take how a job ended from its thread, which is free again."""
        del self._in_threads[held.token]
        if held.token in self._held and held.ending is None:
            self._end(held, ending)

    def _is_over(self) -> bool:
        if time.monotonic() >= self._over_at:
            return True
        is_busy = self._claims.is_busy or self._beats.is_busy
        is_idle = not self._held and not is_busy and self._claim is None
        return is_idle and (self._is_stopping or (self._until_empty and self._is_empty))

    def _do_what_is_due(self, now: float) -> None:
        if now >= self._stop_at:
            self._stop_at = math.inf
            self.stop(self._grace)
        self._give_up_what_is_late(now)
        if now >= self._next_claim():
            self._ask_for_jobs()
        if now >= self._next_sending():
            self._send_endings()
        if now >= self._next_beat():
            self._send_beats()

    def _time_left(self) -> float:
        """Return the seconds until something is due, unless a message brings more."""
        working = [held for held in self._held.values() if held.ending is None]
        moments = [self._stop_at, self._over_at, self._next_claim(), self._next_sending(), self._next_beat()]
        moments += [held.deadline for held in self._in_threads.values() if not held.is_overdue]
        moments += [self._give_up_at] if working else []
        return max(min(moments) - time.monotonic(), 0.0)

    def _hear(self, wait: float) -> None:
        try:
            # Bounded, because infinity is no time-out.
            self._inbox.get(timeout=min(wait, 3_600.0))(self)
            while True:
                self._inbox.get_nowait()(self)
        except Empty:
            return

    def _pause(self, doing: str, failures: int, error: Exception) -> float:
        """Log an error of the queue, and return the seconds after which to try again."""
        asked_for: float = getattr(error, "retry_after", None) or 0.0
        pause = asked_for + random.random() * min(_LONGEST_PAUSE, math.ldexp(_FIRST_PAUSE, min(failures, 10)))  # noqa: S311
        level = logging.WARNING if is_of_the_queue(error) else logging.ERROR
        trace = None if is_of_the_queue(error) else error
        logger.log(level, "%s, again in %.1f s: %s: %s", doing, pause, type(error).__name__, error, exc_info=trace)
        return pause

    # Claims

    def _next_claim(self) -> float:
        if self._claims.is_busy:
            return math.inf
        if self._is_stopping:
            may = self._claim is not None
        else:
            may = len(self._in_threads) < self._concurrency and not (self._is_careful and self._held)
        return self._claim_at if may else math.inf

    def _ask_for_jobs(self) -> None:
        if self._claim is None:
            free = 1 if self._is_careful else self._concurrency - len(self._in_threads)
            self._claim = _Claim(limit=min(free, MAX_BATCH))
        claim = self._claim
        claim.is_last = self._is_stopping
        self._claims.ask(
            lambda: self._queue.claim_jobs(
                limit=claim.limit, types=self._types, lease_seconds=self._lease_seconds, request_id=claim.request_id
            ),
            lambda answer: self._claimed(claim, answer),
        )

    def _claimed(self, claim: _Claim, answer: Any) -> None:
        if isinstance(answer, Exception):
            self._claim_failed(claim, answer)
            return
        self._claim = None
        self._claim_failures = 0
        self._was_let_in = True
        self._is_empty = not answer.jobs
        self._tally.claimed += len(answer.jobs)
        count = self._how_many_to_do(answer.jobs)
        for number, job in enumerate(answer.jobs):
            held = _Held(job, claimed_at=claim.asked_at, max_seconds=self._tasks[job.type].max_seconds)
            self._begin(held, put_off=number >= count)
        if answer.jobs:
            self._next_wait = FIRST_WAIT
            self._claim_at = time.monotonic()
        else:
            wait = min(self._next_wait, answer.retry_after, self._max_wait)
            self._next_wait = wait * 2
            self._claim_at = time.monotonic() + wait * (1 + JITTER * random.random())  # noqa: S311

    def _claim_failed(self, claim: _Claim, error: Exception) -> None:
        is_refused = _is_named(error, {"Forbidden", "InvalidRequest", "RequestRefused"})
        if is_refused and not self._was_let_in:
            self._fatal = error
            self._claim = None
            self.stop(self._grace)
            return
        if is_refused or claim.is_last or getattr(error, "nothing_done", False):
            self._claim = None
        self._claim_failures += 1
        pause = self._pause("the claim failed", self._claim_failures, error)
        self._claim_at = time.monotonic() + (0.0 if self._is_stopping else pause)

    def _how_many_to_do(self, jobs: Sequence[HeldJob]) -> int:
        """Return how many of the claimed jobs to do now; the others go back, and wait until nothing else is held.

        What kills its process takes along the leases of all that the process holds, and comes back together with them:
        the others would lose an attempt each time, until they have failed. So a job whose worker has died before is
        done alone, and only once the queue has heard that nothing else is held.
        """
        suspects = [number for number, job in enumerate(jobs) if job.lease_expiries >= self._alone_after]
        self._is_careful = bool(suspects)
        if suspects and (len(jobs) > 1 or self._held):
            return suspects[0]
        return len(jobs)

    def _begin(self, held: _Held, *, put_off: bool = False) -> None:
        self._held[held.token] = held
        if self._is_stopping or put_off:
            self._end(held, _release(held))
            return
        self._in_threads[held.token] = held
        self._todo.put(held)

    # Jobs

    def _do_jobs(self) -> None:
        while (held := self._todo.get()) is not None:
            ending = ending_of(self._tasks[held.job.type], held.job, held.token)
            self._inbox.put(_coming_back(held, ending))

    def _end(self, held: _Held, ending: Ending) -> None:
        held.ending = ending
        held.ended_at = time.monotonic()
        self._ended[held.token] = held

    def _give_up_what_is_late(self, now: float) -> None:
        for held in [each for each in self._held.values() if each.ending is None]:
            if now >= held.deadline:
                logger.error("job %s (%s) goes on after its deadline", held.job.id, held.job.type)
                held.job.stop("deadline")
                self._end(held, _fail(held, f"It took longer than {held.max_seconds:g} seconds."))
            elif now >= self._give_up_at:
                held.job.stop("shutdown")
                self._end(held, _release(held))
        overdue = sum(held.is_overdue for held in self._in_threads.values())
        if overdue >= self._concurrency and self._fatal is None:
            self._fatal = WorkerStuck(f"All {overdue} threads are lost to jobs that went on after their deadline.")
            self.stop(FAREWELL)

    # Endings

    def _next_sending(self) -> float:
        if self._sends.is_busy or not self._ended:
            return math.inf
        if self._send_failures:
            return self._send_not_before
        # Nothing that could join it is on its way.
        is_alone = self._is_empty and len(self._held) == len(self._ended)
        if is_alone or self._is_stopping or len(self._ended) >= self._most_sent:
            return 0.0
        return next(iter(self._ended.values())).ended_at + LINGER

    def _send_endings(self) -> None:
        batch = list(self._ended.values())[: self._most_sent]
        endings = [held.ending for held in batch]
        self._sends.ask(lambda: self._queue.finish_jobs(endings), lambda answers: self._sent(batch, answers))

    def _sent(self, batch: Sequence[_Held], answers: Any) -> None:
        if isinstance(answers, Exception):
            self._sending_failed(batch, answers)
            return
        self._send_failures = 0
        self._most_sent = MAX_BATCH
        for held, answer in zip(batch, answers, strict=True):
            del self._ended[held.token], self._held[held.token]
            if isinstance(answer, Exception):
                logger.warning("job %s was lost before it ended: %s", held.job.id, answer)
                self._tally.lost += 1
            elif held.ending is not None:
                self._tally.count(held.ending.verb)
                self._expect(answer)

    def _sending_failed(self, batch: Sequence[_Held], error: Exception) -> None:
        if not _is_named(error, {"InvalidRequest", "PayloadTooLarge"}):
            self._send_failures += 1
            pause = self._pause("jobs could not be ended", self._send_failures, error)
            self._send_not_before = time.monotonic() + pause
        elif len(batch) > 1:
            # One of them is at fault, or they are too much together.
            self._most_sent = len(batch) // 2
        else:
            self._replace(batch[0], error)

    def _replace(self, held: _Held, error: Exception) -> None:
        """Fail a job whose ending the queue won't take; when it won't take that either, let its lease end."""
        logger.error("job %s can't be ended so: %s", held.job.id, error)
        del self._ended[held.token]
        if held.ending is not None and held.ending.verb == "complete":
            self._end(held, _fail(held, f"The queue did not take its result: {error}", permanent=True))
        else:
            del self._held[held.token]
            self._tally.lost += 1

    def _expect(self, job: Any) -> None:
        """Claim a job that has gone back as soon as it is due, whatever an empty queue said before."""
        if job.status == "pending" and self._claim is None and not self._is_stopping:
            wait = max((job.run_at - job.updated_at).total_seconds(), 0.0)
            self._is_empty &= wait > 0
            self._claim_at = min(self._claim_at, time.monotonic() + wait)

    # Heartbeats

    def _next_beat(self) -> float:
        if self._beats.is_busy or not self._held:
            return math.inf
        return max(min(held.beat_at for held in self._held.values()), self._beat_not_before)

    def _send_beats(self) -> None:
        asked_at = time.monotonic()
        batch = list(self._held.values())
        beats = [
            Beat(id=held.job.id, lease_token=held.token, progress=_news(held.job.latest_progress, held.told))
            for held in batch
        ]
        self._beats.ask(
            lambda: [
                answer
                for start in range(0, len(beats), MAX_BATCH)
                for answer in self._queue.heartbeat_jobs(beats[start : start + MAX_BATCH])
            ],
            lambda answers: self._beaten(batch, beats, asked_at, answers),
        )

    def _beaten(self, batch: Sequence[_Held], beats: Sequence[Beat], asked_at: float, answers: Any) -> None:
        if isinstance(answers, Exception):
            self._beat_failures += 1
            pause = self._pause("the heartbeat failed", self._beat_failures, answers)
            # Not so long that leases end which a later try would have kept.
            self._beat_not_before = time.monotonic() + min([pause, *(held.interval for held in batch)])
            return
        self._beat_failures = 0
        for held, beat, answer in zip(batch, beats, answers, strict=True):
            if held.token not in self._held:
                continue
            if isinstance(answer, Exception):
                self._lose(held, answer)
                continue
            held.beat_at = asked_at + (answer.lease_expires_at - answer.server_time).total_seconds() / BEATS
            held.told = beat.progress or held.told
            if answer.cancel_requested:
                held.job.stop("cancelled")

    def _lose(self, held: _Held, error: Exception) -> None:
        if held.ending is not None:
            # The ending may have come first, and then its answer tells.
            held.beat_at = math.inf
            return
        logger.warning("job %s was lost while it ran: %s", held.job.id, error)
        held.job.stop("lease_lost")
        del self._held[held.token]
        self._tally.lost += 1


def _lease_seconds(job: HeldJob) -> float:
    if job.lease_expires_at is None or job.claimed_at is None:
        raise ValueError(f"job {job.id} came without a lease")
    return (job.lease_expires_at - job.claimed_at).total_seconds()


def _news(progress: dict[str, Any] | None, told: dict[str, Any] | None) -> dict[str, Any] | None:
    return progress if progress != told else None


def _release(held: _Held) -> Ending:
    return Ending(id=held.job.id, verb="release", lease_token=held.token)


def _fail(held: _Held, error: str, *, permanent: bool = False) -> Ending:
    return Ending(id=held.job.id, verb="fail", lease_token=held.token, error=error, permanent=permanent)


def _coming_back(held: _Held, ending: Ending) -> Message:
    return lambda shift: shift.came_back(held, ending)


def _is_named(error: Exception, names: set[str]) -> bool:
    # The core's errors are no classes of this package, but have the same names.
    return any(each.__name__ in names for each in type(error).__mro__)


def is_of_the_queue(error: Exception) -> bool:
    """Say whether it is an error that the queue raises, a client or the core."""
    return _is_named(error, {"QueuelogError"})
