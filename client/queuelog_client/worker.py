from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from queuelog_client.shift import Shift, Tally
from queuelog_client.tasks import DEFAULT_MAX_SECONDS, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from queuelog_client.shift import Message
    from queuelog_client.tasks import AnyHandler
    from queuelog_client.verbs import WorkQueue

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Claims jobs, does them in threads, keeps their leases, and tells the queue how they ended.

    A crash loses no job: what was held goes to another worker when its lease ends.
    """

    def __init__(
        self,
        queue: WorkQueue,
        tasks: Tasks | None = None,
        *,
        concurrency: int = 4,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        grace: float = 25.0,
        max_wait: float = 20.0,
        alone_after: int = 2,
    ) -> None:
        """Take a QueueClient, the core's bound queue, or an InMemoryQueue; raise ValueError.

        concurrency: jobs at a time. types: which of its tasks to work on; default all. lease_seconds: default the
        queue's. grace: seconds from a stop to the end of run. max_wait: seconds between two looks into an empty queue,
        at the most; a queue asks for less when it knows better. alone_after: a job whose lease has ended so often is
        done with nothing beside it, for it may be what kills its workers.
        """
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self.queue = queue
        self.tasks = Tasks() if tasks is None else tasks
        self.concurrency = concurrency
        self.lease_seconds = lease_seconds
        self.grace = grace
        self.max_wait = max_wait
        self.alone_after = alone_after
        self._types = types
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._running = threading.Lock()

    def task(self, type: str, *, max_seconds: float = DEFAULT_MAX_SECONDS) -> Callable[[AnyHandler], AnyHandler]:
        """Return a decorator: the function does the jobs of this type.

        It gets a RunningJob, and what it returns is the job's result: JSON of at most 65,536 bytes, or None. An
        exception fails the attempt, Permanent the job, and RetryIn sets when it is tried again. max_seconds: the hard
        deadline of one attempt.
        """
        return self.tasks.task(type, max_seconds=max_seconds)

    @property
    def types(self) -> list[str]:
        """The types that it claims; raises ValueError if there are none, or one has no task."""
        types = sorted(self.tasks if self._types is None else self._types)
        missing = [type for type in types if type not in set(self.tasks)]
        if missing or not types:
            raise ValueError(f"there is no task for {', '.join(missing)}" if missing else "there are no tasks")
        return types

    @types.setter
    def types(self, types: Collection[str] | None) -> None:
        self._types = types

    def run(self, *, until_empty: bool = False, seconds: float | None = None, handle_signals: bool = True) -> Tally:
        """Work until stop is called or SIGTERM or SIGINT comes; return what was done.

        until_empty: until a claim finds nothing and all that was claimed has ended. seconds: return after so many at
        the latest; `grace` seconds before that it claims no more. handle_signals: in the main thread a first signal
        stops it, a second one ends the grace time. Raises WorkerStuck when every thread is lost to a job that doesn't
        end, and the error of a queue that refuses the first claim; afterwards an error of the queue is logged, and
        tried again later.
        """
        types = self.types
        if seconds is not None and seconds <= self.grace:
            raise ValueError(f"seconds must be more than the grace time of {self.grace:g} seconds")
        if not self._running.acquire(blocking=False):
            raise RuntimeError("this worker is running already")
        with ExitStack() as afterwards:
            afterwards.callback(self._running.release)
            afterwards.callback(self._forget_stops)
            if handle_signals and threading.current_thread() is threading.main_thread():
                afterwards.enter_context(self._signals())
            shift = Shift(
                # A client's own repeats could not be called off.
                self.queue.once() if hasattr(self.queue, "once") else self.queue,
                self.tasks,
                self._inbox,
                types=types,
                concurrency=self.concurrency,
                lease_seconds=self.lease_seconds,
                grace=self.grace,
                max_wait=self.max_wait,
                alone_after=self.alone_after,
                until_empty=until_empty,
            )
            return shift.run(seconds)

    def stop(self, *, grace: float | None = None) -> None:
        """Let run claim no more, and return within `grace` seconds, as many as the worker was told when left out.

        From any thread or signal handler. What isn't done by then is released, for which there is a second at least.
        Before run it makes that return at once.
        """
        # Unlike a lock or an Event this queue may be used in the middle of anything.
        self._inbox.put(lambda shift: shift.stop(self.grace if grace is None else grace))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        received: list[int] = []

        def receive(number: int, _frame: Any) -> None:
            received.append(number)
            self.stop(grace=None if len(received) == 1 else 0.0)

        before = {each: signal.signal(each, receive) for each in STOP_SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _forget_stops(self) -> None:
        # Threads of this run that are still at a job go on telling the old one.
        self._inbox = SimpleQueue()
