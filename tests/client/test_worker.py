"""What a worker does with jobs, with its queue's answers, and with its time."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import queuelog
from queuelog_client import (
    Cancelled,
    Forbidden,
    InvalidRequest,
    JobPriority,
    JobStatus,
    NewJob,
    NoAnswer,
    Permanent,
    RetryIn,
    RunningJob,
    StorageBusy,
    StorageUnavailable,
    Tally,
    Tasks,
    Unauthorized,
    Worker,
    WorkerStuck,
    shift,
)
from queuelog_client.job import Claimed
from queuelog_client.testing import InMemoryQueue
from tests.client.support import Watched, do_and_fail_with, fail_with
from tests.support import admin, directory_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from queuelog_client import WorkQueue
    from tests.client.support import Stack

#: Longer than any of these tests may take; nothing waits for it to pass.
LONG = 60


@pytest.fixture
def queue() -> InMemoryQueue:
    return InMemoryQueue()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "_FIRST_PAUSE", 0.01)


def fill(queue: InMemoryQueue, count: int, type: str = "email", **fields: Any) -> None:
    for number in range(count):
        queue.enqueue(NewJob(type=type, payload={"n": number}, **fields))


def statuses(queue: InMemoryQueue) -> list[str]:
    return [job.status.value for job in queue.jobs]


def do_all(queue: WorkQueue, handler: Callable[[RunningJob], object], **options: Any) -> Tally:
    return Worker(queue, Tasks({"email": handler}), **options).run(until_empty=True, seconds=LONG)


class Background:
    """A worker that runs in a thread, until the block ends at the latest."""

    def __init__(self, queue: WorkQueue, handler: Callable[[RunningJob], object], **options: Any) -> None:
        self.worker = Worker(queue, Tasks({"email": handler}), **{"max_wait": 0.01, "grace": LONG, **options})
        self.thread = threading.Thread(target=self._run)
        self.tally: Tally | None = None
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            self.tally = self.worker.run()
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop(grace=0)
        self.thread.join()

    def ended(self) -> Tally:
        self.thread.join()
        assert self.error is None
        assert self.tally is not None
        return self.tally


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


@pytest.fixture(params=["client", "core", "memory"])
def any_queue(request: pytest.FixtureRequest) -> Iterator[tuple[WorkQueue, Callable[[], list[Any]]]]:
    """A queue of each kind with six jobs in it, and what can be said of them later."""
    with ExitStack() as ending:
        if request.param == "client":
            stack: Stack = request.getfixturevalue("stack")
            stack.producer.enqueue_jobs([NewJob(type="email", payload={"n": number}) for number in range(6)])
            yield stack.worker, lambda: list(stack.admin.iterate())
        elif request.param == "core":
            folder = ending.enter_context(directory_in_memory())
            store = queuelog.Store(Path(folder) / "queue.db")
            ending.callback(store.close)
            bound = queuelog.Queue(store).bound(admin())
            bound.enqueue_jobs([queuelog.NewJob(type="email", payload={"n": number}) for number in range(6)])
            yield bound, lambda: list(bound.list().jobs)
        else:
            memory = InMemoryQueue()
            fill(memory, 6)
            yield memory, lambda: list(memory.iterate())


def test_one_loop_serves_the_api_the_core_and_a_queue_in_memory(
    any_queue: tuple[WorkQueue, Callable[[], list[Any]]],
) -> None:
    queue, jobs = any_queue

    def handler(job: RunningJob) -> object:
        if job.payload["n"] == 5:
            raise ValueError("no such address")
        return {"twice": job.payload["n"] * 2}

    # The first retry of the sixth is due at once, and the next one is not.
    assert do_all(queue, handler, concurrency=3) == Tally(claimed=7, completed=5, failed=2)
    found = sorted(jobs(), key=lambda job: int(job.id))
    assert [job.result for job in found] == [*({"twice": 2 * number} for number in range(5)), None]
    assert [str(job.status) for job in found] == ["completed"] * 5 + ["pending"]
    assert found[5].error == "ValueError: no such address"
    assert (found[5].retry_count, found[5].attempt) == (2, 2)


class WithoutWords(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


@pytest.mark.parametrize(
    ("raised", "status", "error"),
    [
        (WithoutWords(), "pending", "WithoutWords"),
        (ValueError("no\nluck"), "pending", "ValueError: no\nluck"),
        (KeyError(), "pending", "KeyError"),
        (SystemExit(3), "pending", "SystemExit: 3"),
        (Cancelled("of my own accord"), "pending", "Cancelled: of my own accord"),
        (OSError("\udcff is half a character"), "pending", "OSError: ? is half a character"),
        (Permanent("no such user"), "failed", "no such user"),
        (Permanent(), "failed", "Permanent"),
        (RetryIn(7, "busy"), "pending", "busy"),
        (RetryIn(7), "pending", "RetryIn: to be tried again in 7 seconds"),
        (RetryIn(-7, "busy"), "pending", "InvalidJob: "),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_handler_raises_is_how_its_attempt_ends(
    queue: InMemoryQueue, raised: BaseException, status: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest-xdist can't send a captured log with half a character in it.
    monkeypatch.setattr(logging.getLogger("queuelog_client"), "disabled", True)

    def handler(job: RunningJob) -> None:
        if job.attempt == 1:
            raise raised
        raise RetryIn(60)

    fill(queue, 1)
    queue.clock.advance(seconds=1)
    do_all(queue, handler)
    (first, *_) = queue.attempts(1)
    assert (first.error or "").startswith(error)
    assert "Traceback" not in str(first.error)
    assert statuses(queue) == [status]


def test_what_a_handler_raised_from_is_told_where_it_said_nothing_itself(queue: InMemoryQueue) -> None:
    def handler(job: RunningJob) -> None:
        slow = TimeoutError("5 seconds")
        if job.payload["n"]:
            raise Permanent from slow
        raise RetryIn(7) from slow

    fill(queue, 2)
    do_all(queue, handler)
    assert [job.error for job in queue.jobs] == ["TimeoutError: 5 seconds"] * 2
    assert (queue.jobs[0].run_at - queue.clock.now()).total_seconds() == 7


def test_the_trace_of_a_failure_is_in_the_log_of_the_worker(
    queue: InMemoryQueue, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(_: RunningJob) -> None:
        raise ValueError("no luck")

    fill(queue, 1, max_retries=0)
    do_all(queue, handler)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "job 1 (email) failed in attempt 1"
    assert "in handler" in caplog.text


@pytest.mark.parametrize("result", [{1, 2}, float("nan"), "x" * 70_000, {"a": object()}], ids=type)
def test_a_result_that_can_t_be_kept_fails_the_job_for_good(queue: InMemoryQueue, result: object) -> None:
    fill(queue, 1)
    assert do_all(queue, lambda _: result) == Tally(claimed=1, failed=1)
    assert queue.jobs[0].status is JobStatus.FAILED
    assert "result" in str(queue.jobs[0].error)


def test_it_never_claims_more_than_it_can_begin_at_once(queue: InMemoryQueue) -> None:
    done: list[int] = []
    waiting: list[int] = []

    def handler(job: RunningJob) -> None:
        waiting.append(sum(each.attempt for each in queue.jobs) - len(done))
        done.append(job.id)

    fill(queue, 40)
    assert do_all(queue, handler, concurrency=3).completed == 40
    assert max(waiting) <= 3


def test_it_claims_the_types_that_it_has_tasks_for_and_no_others(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    worker = Worker(watched, types=["pdf"])
    worker.task("email")(lambda _: None)
    worker.task("pdf", max_seconds=5)(lambda _: None)
    fill(queue, 1, "email")
    fill(queue, 1, "pdf")
    fill(queue, 1, "sync")
    assert worker.run(until_empty=True).completed == 1
    assert statuses(queue) == ["pending", "completed", "pending"]
    assert watched.asked_for("claim_jobs")[0]["types"] == ["pdf"]
    assert worker.tasks["pdf"].max_seconds == 5


def test_what_can_t_be_worked_on_is_told_before_anything_is_claimed(queue: InMemoryQueue) -> None:
    with pytest.raises(ValueError, match="no tasks"):
        Worker(queue).run()
    with pytest.raises(ValueError, match="no task for pdf"):
        Worker(queue, Tasks({"email": print}), types=["pdf", "email"]).run()
    with pytest.raises(ValueError, match="concurrency"):
        Worker(queue, concurrency=0)
    with pytest.raises(ValueError, match="grace"):
        Worker(queue, Tasks({"email": print}), grace=5).run(seconds=5)


def test_a_type_has_one_task_and_a_task_is_a_plain_function() -> None:
    async def later(_: RunningJob) -> None: ...

    tasks, more = Tasks({"email": print}), Tasks({"pdf": print})
    with pytest.raises(ValueError, match="two tasks for the type email"):
        tasks.add("email", print)
    with pytest.raises(TypeError, match="plain function"):
        tasks.add("sync", later)
    tasks.include(more)
    assert list(tasks) == ["email", "pdf"]
    assert len(tasks) == 2


def test_results_that_come_together_are_sent_together(queue: InMemoryQueue) -> None:
    watched, together = Watched(queue), threading.Barrier(8)
    fill(queue, 8)
    do_all(watched, lambda _: together.wait() and None, concurrency=8)
    batches = [len(batch) for batch in watched.asked_for("finish_jobs")]
    assert sum(batches) == 8
    assert len(batches) < 8


def test_heartbeats_keep_a_lease_and_carry_the_progress(queue: InMemoryQueue) -> None:
    watched = Watched(queue)

    def handler(job: RunningJob) -> None:
        job.progress({"pages": 1})
        until(lambda: queue.jobs[0].progress == {"pages": 1})
        queue.clock.advance(seconds=0.9)
        beats = len(watched.asked_for("heartbeat_jobs"))
        until(lambda: len(watched.asked_for("heartbeat_jobs")) == beats + 2)
        # Later than the claim's own lease.
        queue.clock.advance(seconds=0.9)
        job.progress({"pages": 2})
        until(lambda: queue.jobs[0].progress == {"pages": 2})
        with pytest.raises(InvalidRequest, match="progress"):
            job.progress({"pages": "x" * 5_000})

    fill(queue, 1)
    assert do_all(watched, handler, lease_seconds=1).completed == 1
    assert queue.jobs[0].lease_expiries == 0
    told = [beat.progress for (beat,) in watched.asked_for("heartbeat_jobs")]
    # Once each: the queue keeps it.
    assert [each for each in told if each] == [{"pages": 1}, {"pages": 2}]


def test_a_cancelled_job_is_told_and_ends_as_the_queue_wants_it(queue: InMemoryQueue) -> None:
    reasons: list[str | None] = []

    def handler(job: RunningJob) -> str:
        queue.cancel(job.id)
        assert job.cancelled.wait(LONG)
        reasons.append(job.stop_reason)
        if job.payload["n"] == 0:
            job.raise_if_cancelled()
        if job.payload["n"] == 1:
            raise ValueError("cut short")
        return "done all the same"

    fill(queue, 3)
    tally = do_all(queue, handler, lease_seconds=1, concurrency=3)
    assert tally == Tally(claimed=3, completed=1, failed=1, released=1)
    assert statuses(queue) == ["cancelled", "cancelled", "completed"]
    assert reasons == ["cancelled"] * 3
    assert queue.jobs[0].error is None


def test_a_job_stops_for_the_first_reason_and_shows_no_token(queue: InMemoryQueue) -> None:
    fill(queue, 1)
    (held,) = queue.claim_jobs().jobs
    job = RunningJob(held)
    job.stop("cancelled")
    job.stop("shutdown")
    assert job.stop_reason == "cancelled"
    assert repr(job) == "<RunningJob 1 email attempt=1>"
    assert str(held.lease_token) not in repr(held)


def test_a_job_that_nobody_cancelled_goes_on(queue: InMemoryQueue) -> None:
    fill(queue, 1)
    assert do_all(queue, lambda job: job.raise_if_cancelled()).completed == 1


def test_a_job_whose_lease_was_taken_back_is_told_and_not_ended(queue: InMemoryQueue) -> None:
    watched, reasons = Watched(queue), []

    def handler(job: RunningJob) -> None:
        if job.attempt == 1:
            queue.clock.advance(seconds=1)
            assert queue.sweep() == 1
            assert job.cancelled.wait(LONG)
            reasons.append(job.stop_reason)

    fill(queue, 1)
    with Background(watched, handler, lease_seconds=1) as background:
        until(lambda: statuses(queue) == ["completed"] and reasons)
        background.worker.stop()
        assert background.ended() == Tally(claimed=2, completed=1, lost=1)
    assert reasons == ["lease_lost"]
    assert [attempt.outcome for attempt in queue.attempts(1)] == ["lease_expired", "completed"]
    assert sum(map(len, watched.asked_for("finish_jobs"))) == 1


def test_a_lease_that_is_found_lost_at_the_end_is_counted(queue: InMemoryQueue) -> None:
    def handler(job: RunningJob) -> None:
        if job.attempt == 1:
            queue.clock.advance(seconds=61)
            assert queue.sweep() == 1

    fill(queue, 1)
    with Background(queue, handler) as background:
        until(lambda: statuses(queue) == ["completed"])
        background.worker.stop()
        assert background.ended() == Tally(claimed=2, completed=1, lost=1)


def test_a_heartbeat_that_an_ending_overtakes_takes_nothing_back(queue: InMemoryQueue) -> None:
    watched = Watched(queue)

    def late(act: Callable[[], Any]) -> Any:
        until(lambda: statuses(queue) == ["completed", "running"])
        return act()

    def handler(job: RunningJob) -> None:
        until(lambda: len(watched.asked_for("heartbeat_jobs")) > job.payload["n"])

    watched.plan["heartbeat_jobs"].append(late)
    # The second one keeps the worker at work until the late answer has come.
    fill(queue, 2)
    assert do_all(watched, handler, lease_seconds=1) == Tally(claimed=2, completed=2)


def test_a_worker_that_is_done_waits_for_a_heartbeat_that_is_on_its_way(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    answered: list[bool] = []

    def late(act: Callable[[], Any]) -> Any:
        until(lambda: statuses(queue) == ["completed"])
        # By now run has heard of the ending, if it doesn't wait.
        time.sleep(0.1)
        answered.append(True)
        return act()

    watched.plan["heartbeat_jobs"].append(late)
    fill(queue, 1)
    assert do_all(watched, lambda _: until(lambda: watched.asked_for("heartbeat_jobs")), lease_seconds=1).completed == 1
    # Otherwise its thread would outlive the run, which to a function's call looks like a job that doesn't end.
    assert answered == [True]


def test_an_ending_whose_answer_was_lost_is_not_taken_for_a_lost_lease(queue: InMemoryQueue) -> None:
    watched = Watched(queue)

    def lost(act: Callable[[], Any]) -> Any:
        act()
        beats = len(watched.asked_for("heartbeat_jobs"))
        until(lambda: len(watched.asked_for("heartbeat_jobs")) > beats)
        raise NoAnswer

    watched.plan["finish_jobs"].append(lost)
    fill(queue, 1)
    assert do_all(watched, lambda _: None, lease_seconds=1) == Tally(claimed=1, completed=1)


def test_a_job_that_no_lease_came_with_is_nothing_to_work_on(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    fill(queue, 1)
    watched.plan["claim_jobs"].append(lambda _: Claimed(queue.jobs, 0))
    with pytest.raises(ValueError, match="job 1 came without a lease"):
        do_all(watched, lambda _: None)


def test_a_job_past_its_deadline_fails_and_its_thread_is_lost_until_it_comes_back(queue: InMemoryQueue) -> None:
    hung, seen = threading.Event(), []

    def hang(job: RunningJob) -> None:
        assert job.cancelled.wait(LONG)
        seen.append(job.stop_reason)
        assert hung.wait(LONG)

    fill(queue, 1, "pdf", max_retries=0)
    watched = Watched(queue)
    background = Background(watched, lambda _: None, concurrency=2)
    background.worker.task("pdf", max_seconds=0.05)(hang)
    with background:
        until(lambda: queue.jobs[0].status is JobStatus.FAILED)
        assert queue.jobs[0].error == "It took longer than 0.05 seconds."
        watched.asked.clear()
        fill(queue, 3)
        until(lambda: statuses(queue)[1:] == ["completed"] * 3)
        assert {claim["limit"] for claim in watched.asked_for("claim_jobs")} == {1}
        hung.set()
        until(lambda: watched.asked_for("claim_jobs")[-1]["limit"] == 2)
    assert seen == ["deadline"]


def test_a_worker_without_a_thread_left_ends_with_an_error(queue: InMemoryQueue) -> None:
    hung = threading.Event()
    worker = Worker(queue, concurrency=2)

    @worker.task("email", max_seconds=0.05)
    def hang(_: RunningJob) -> None:
        hung.wait(LONG)

    fill(queue, 3, max_retries=0)
    with pytest.raises(WorkerStuck, match="All 2 threads"):
        worker.run()
    hung.set()
    # What it held has been told to the queue.
    assert statuses(queue) == ["failed", "failed", "pending"]


def test_a_thread_that_a_lost_job_keeps_counts_as_lost_from_its_deadline_on(queue: InMemoryQueue) -> None:
    hung = threading.Event()
    worker = Worker(queue, concurrency=1, lease_seconds=1)

    @worker.task("email", max_seconds=0.8)
    def hang(_: RunningJob) -> None:
        queue.clock.advance(seconds=1)
        queue.sweep()
        hung.wait(LONG)

    fill(queue, 1)
    with pytest.raises(WorkerStuck):
        worker.run()
    hung.set()
    assert [attempt.outcome for attempt in queue.attempts(1)] == ["lease_expired"]


ERRORS = [StorageBusy(), StorageUnavailable(), NoAnswer(), queuelog.StorageBusy(), RuntimeError("a bug")]


@pytest.mark.parametrize("verb", ["claim_jobs", "finish_jobs", "heartbeat_jobs"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__module__}.{type(error).__name__}")
def test_an_error_of_the_queue_is_logged_and_survived(
    queue: InMemoryQueue, verb: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(queue)
    worse = fail_with if isinstance(error, (StorageBusy, queuelog.StorageBusy)) else do_and_fail_with
    watched.plan[verb].extend([fail_with(error), worse(error), fail_with(error)])

    def handler(_: RunningJob) -> None:
        if verb == "heartbeat_jobs":
            until(lambda: len(watched.asked_for(verb)) > 3)

    fill(queue, 2)
    assert do_all(watched, handler, lease_seconds=1, concurrency=2).completed == 2
    assert [len(queue.attempts(job.id)) for job in queue.jobs] == [1, 1]
    assert caplog.text.count(type(error).__name__) >= 3
    assert ("Traceback" in caplog.text) == isinstance(error, RuntimeError)


def test_a_claim_whose_answer_was_lost_is_asked_for_again(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    watched.plan["claim_jobs"].extend([do_and_fail_with(NoAnswer()), fail_with(NoAnswer())])
    fill(queue, 5)
    assert do_all(watched, lambda _: None, concurrency=4).claimed == 5
    claims = watched.asked_for("claim_jobs")
    assert claims[0] == claims[1] == claims[2]
    assert claims[3]["request_id"] != claims[2]["request_id"]
    assert [job.attempt for job in queue.jobs] == [1] * 5


@pytest.mark.parametrize("error", [Forbidden(), Unauthorized(), InvalidRequest(), queuelog.Forbidden()], ids=repr)
def test_a_worker_that_is_not_let_in_says_so_and_ends(queue: InMemoryQueue, error: Exception) -> None:
    watched = Watched(queue)
    watched.plan["claim_jobs"].extend([fail_with(error)])
    with pytest.raises(type(error)):
        Worker(watched, Tasks({"email": print})).run()
    assert len(watched.asked) == 1


def test_a_worker_that_was_let_in_once_survives_a_key_that_is_changed(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    watched.plan["claim_jobs"].extend([lambda act: act(), fail_with(Unauthorized()), fail_with(Unauthorized())])
    fill(queue, 2)
    assert do_all(watched, lambda _: None, concurrency=1).completed == 2
    claims = watched.asked_for("claim_jobs")
    assert claims[1]["request_id"] != claims[2]["request_id"]


def test_what_the_queue_does_not_take_is_sent_in_ever_smaller_batches(queue: InMemoryQueue) -> None:
    watched, together = Watched(queue), threading.Barrier(4)

    def picky(act: Callable[[], Any]) -> Any:
        batch = watched.asked_for("finish_jobs")[-1]
        if any(ending.result == "poison" for ending in batch):
            raise InvalidRequest
        return act()

    watched.plan["finish_jobs"].extend([picky] * 20)

    def handler(job: RunningJob) -> str:
        together.wait()
        return "poison" if job.payload["n"] == 1 else "good"

    fill(queue, 4)
    assert do_all(watched, handler, concurrency=4) == Tally(claimed=4, completed=3, failed=1)
    assert statuses(queue) == ["completed", "failed", "completed", "completed"]
    assert str(queue.jobs[1].error).startswith("The queue did not take its result: The request is not valid")


def test_what_the_queue_takes_in_no_way_is_left_to_its_lease(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    watched.plan["finish_jobs"].extend([fail_with(InvalidRequest())] * 2)
    fill(queue, 1)
    assert do_all(watched, lambda _: None) == Tally(claimed=1, lost=1)
    assert statuses(queue) == ["running"]


def test_a_stop_lets_jobs_end_within_their_grace_and_releases_the_others(queue: InMemoryQueue) -> None:
    started = threading.Semaphore(0)
    may_end, give_up = threading.Event(), threading.Event()
    reasons: list[str | None] = []

    def handler(job: RunningJob) -> None:
        started.release()
        if job.payload["n"] < 2:
            assert may_end.wait(LONG)
        else:
            assert job.cancelled.wait(LONG)
            reasons.append(job.stop_reason)
            give_up.set()

    fill(queue, 5)
    watched = Watched(queue)
    with Background(watched, handler, concurrency=3) as background:
        for _ in range(3):
            started.acquire()
        claims = len(watched.asked_for("claim_jobs"))
        background.worker.stop(grace=0.6)
        may_end.set()
        tally = background.ended()
    assert tally == Tally(claimed=3, completed=2, released=1)
    assert statuses(queue) == ["completed", "completed", "pending", "pending", "pending"]
    assert queue.jobs[2].retry_count == 0
    assert len(watched.asked_for("claim_jobs")) == claims
    assert give_up.wait(LONG)
    assert reasons == ["shutdown"]


def test_jobs_that_a_claim_brings_after_a_stop_are_released_unstarted(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    done: list[int] = []
    background = Background(watched, lambda job: done.append(job.id))

    def stopping(act: Callable[[], Any]) -> Any:
        background.worker.stop()
        return act()

    watched.plan["claim_jobs"].append(stopping)
    fill(queue, 2)
    with background:
        assert background.ended() == Tally(claimed=2, released=2)
    assert statuses(queue) == ["pending", "pending"]
    assert done == []


def test_a_claim_whose_answer_was_lost_is_asked_for_once_more_at_a_stop(queue: InMemoryQueue) -> None:
    watched = Watched(queue)
    background = Background(watched, lambda _: None)

    def lost(act: Callable[[], Any]) -> Any:
        act()
        background.worker.stop()
        raise NoAnswer

    watched.plan["claim_jobs"].append(lost)
    fill(queue, 2)
    with background:
        assert background.ended() == Tally(claimed=2, released=2)
    assert statuses(queue) == ["pending", "pending"]
    first, second = watched.asked_for("claim_jobs")
    assert first == second


def test_a_queue_that_doesn_t_answer_holds_up_no_stop(queue: InMemoryQueue, caplog: pytest.LogCaptureFixture) -> None:
    watched, silence = Watched(queue), threading.Event()

    def silent(act: Callable[[], Any]) -> Any:
        silence.wait(LONG)
        return act()

    watched.plan["finish_jobs"].append(silent)
    fill(queue, 1)
    with Background(watched, lambda _: None) as background:
        until(lambda: watched.asked_for("finish_jobs"))
        background.worker.stop(grace=0)
        assert background.ended() == Tally(claimed=1)
    assert "job 1 stays held until its lease ends" in caplog.text
    silence.set()


def test_a_stop_before_the_start_is_one_and_the_next_start_is_free_of_it(queue: InMemoryQueue) -> None:
    worker = Worker(queue, Tasks({"email": lambda _: None}))
    fill(queue, 1)
    worker.stop()
    assert worker.run() == Tally()
    assert worker.run(until_empty=True).completed == 1


def test_one_worker_runs_once_at_a_time(queue: InMemoryQueue) -> None:
    going = threading.Event()
    fill(queue, 1)
    with Background(queue, lambda _: going.set()) as background:
        assert going.wait(LONG)
        with pytest.raises(RuntimeError, match="running already"):
            background.worker.run()


def lose(queue: InMemoryQueue, count: int) -> None:
    """Let a worker claim jobs and die."""
    assert len(queue.claim_jobs(limit=count).jobs) == count
    queue.clock.advance(seconds=60)


def held_beside(queue: InMemoryQueue) -> Callable[[RunningJob], None]:
    """Return a handler that notes for each job how many were held when it began."""

    def handler(job: RunningJob) -> None:
        queue.enqueue(NewJob(type="seen", payload={"id": job.id, "held": statuses(queue).count("running")}))

    return handler


def seen(queue: InMemoryQueue) -> dict[int, int]:
    return {job.payload["id"]: job.payload["held"] for job in queue.jobs if job.type == "seen" and job.payload}


def test_a_job_whose_worker_died_is_done_with_nothing_beside_it(queue: InMemoryQueue) -> None:
    fill(queue, 3)
    lose(queue, 3)
    fill(queue, 3)
    tally = do_all(queue, held_beside(queue), alone_after=1)
    assert tally.completed == 6
    held = seen(queue)
    assert [held[id] for id in (1, 2, 3)] == [1, 1, 1]
    assert {job.retry_count for job in queue.jobs if job.type == "email"} == {0, 1}
    assert {attempt.outcome for attempt in queue.attempts(1)} == {"lease_expired", "released", "completed"}


def test_a_job_is_not_put_off_for_one_death_unless_that_is_asked_for(queue: InMemoryQueue) -> None:
    fill(queue, 3)
    lose(queue, 3)
    assert do_all(queue, lambda _: None) == Tally(claimed=3, completed=3)


def test_what_stands_before_such_a_job_is_done_first_and_the_claim_after_it_takes_one(queue: InMemoryQueue) -> None:
    fill(queue, 1)
    lose(queue, 1)
    fill(queue, 2, priority=JobPriority.HIGH)
    fill(queue, 5)
    watched = Watched(queue)
    assert do_all(watched, held_beside(queue), alone_after=1).completed == 8
    assert seen(queue)[1] == 1
    limits = [asked["limit"] for asked in watched.asked_for("claim_jobs")]
    # One more for whatever comes after it, which may have died together with it.
    assert limits[:3] == [4, 1, 1]
    assert max(limits[3:]) > 1


def test_a_job_that_is_done_alone_and_goes_on_after_its_deadline_stops_no_claims(queue: InMemoryQueue) -> None:
    fill(queue, 1, max_retries=1)
    lose(queue, 1)
    fill(queue, 2)
    release = threading.Event()
    tasks = Tasks()
    tasks.add("email", lambda job: release.wait() if job.id == 1 else None, max_seconds=0.1)
    tally = Worker(queue, tasks, alone_after=1).run(until_empty=True, seconds=LONG)
    release.set()
    assert (tally.failed, tally.completed) == (1, 2)


def test_until_empty_waits_for_nothing_that_is_due_later(queue: InMemoryQueue) -> None:
    fill(queue, 3)
    fill(queue, 1, delay_seconds=5)
    assert do_all(queue, lambda _: None, concurrency=1) == Tally(claimed=3, completed=3)
    assert statuses(queue) == ["completed"] * 3 + ["pending"]


def test_a_time_limit_leaves_the_grace_time_for_what_is_running(queue: InMemoryQueue) -> None:
    fill(queue, 1)
    worker = Worker(queue, Tasks({"email": lambda job: job.cancelled.wait(LONG)}), grace=0.3)
    assert worker.run(until_empty=True, seconds=0.4) == Tally(claimed=1, released=1)
    fill(queue, 1)
    assert statuses(queue) == ["pending", "pending"]


def test_a_time_limit_ends_a_worker_that_holds_nothing_before_its_grace_time(queue: InMemoryQueue) -> None:
    worker = Worker(queue, Tasks({"email": lambda _: None}), grace=1_000)
    idle = threading.Thread(target=worker.run, kwargs={"seconds": 1_000.05}, daemon=True)
    idle.start()
    idle.join(LONG)
    assert not idle.is_alive()


def new_shift(queue: WorkQueue, **options: Any) -> Any:
    defaults: dict[str, Any] = {
        "types": ["email"],
        "concurrency": 1,
        "lease_seconds": None,
        "grace": 1.0,
        "max_wait": 20.0,
        "alone_after": 2,
        "until_empty": False,
    }
    return shift.Shift(queue, Tasks({"email": print}), cast("Any", None), **{**defaults, **options})


@pytest.mark.parametrize(
    ("asked_for", "max_wait", "waits"),
    [(20, 20, [1, 2, 4, 8, 16, 20, 20]), (3, 20, [1, 2, 3, 3]), (20, 5, [1, 2, 4, 5, 5]), (20, 0.1, [0.1, 0.1])],
)
def test_an_idle_worker_looks_again_soon_and_then_as_seldom_as_the_queue_said_and_a_little_later(
    queue: InMemoryQueue, asked_for: int, max_wait: float, waits: list[float]
) -> None:
    idle = new_shift(queue, max_wait=max_wait)
    assert_waits(idle, asked_for, waits)
    fill(queue, 1)
    idle._claimed(shift._Claim(limit=1), queue.claim_jobs())
    assert_waits(idle, asked_for, waits)


def test_idle_workers_spread(queue: InMemoryQueue) -> None:
    moments = set()
    for _ in range(20):
        idle = new_shift(queue)
        before = time.monotonic()
        idle._claimed(shift._Claim(limit=1), Claimed((), 20))
        moments.add(round(idle._claim_at - before, 2))
    assert len(moments) > 3


def assert_waits(idle: Any, asked_for: int, waits: list[float]) -> None:
    for least in waits:
        before = time.monotonic()
        idle._claimed(shift._Claim(limit=1), Claimed((), asked_for))
        assert before + least <= idle._claim_at <= time.monotonic() + least * 1.2


def test_a_pause_after_errors_honours_retry_after_and_has_an_end(queue: InMemoryQueue) -> None:
    tired = new_shift(queue)
    busy = StorageBusy()
    busy.retry_after = 2
    assert all(2 <= tired._pause("x", failures, busy) <= 2 + 20 for failures in (1, 5, 5_000))


def test_a_pause_between_heartbeats_is_no_longer_than_they_may_be_apart(queue: InMemoryQueue) -> None:
    tired = new_shift(queue)
    fill(queue, 1)
    (job,) = queue.claim_jobs(lease_seconds=30).jobs
    held = shift._Held(job, claimed_at=0.0, max_seconds=LONG)
    tired._held[held.token] = held
    assert tired._next_beat() == 10
    busy = StorageUnavailable()
    busy.retry_after = 100
    before = time.monotonic()
    tired._beaten([held], [], 0.0, busy)
    assert before + 10 <= tired._next_beat() <= time.monotonic() + 10


def test_an_ending_waits_for_others_unless_there_can_be_none(queue: InMemoryQueue) -> None:
    calm = new_shift(queue, concurrency=200)
    fill(queue, 100)
    for job in queue.claim_jobs(limit=100).jobs:
        calm._begin(shift._Held(job, claimed_at=0.0, max_seconds=LONG))
    first, *others = calm._held.values()
    calm.came_back(first, shift._release(first))
    assert calm._next_sending() == first.ended_at + shift.LINGER
    calm._is_empty = True
    assert calm._next_sending() == first.ended_at + shift.LINGER
    for held in others:
        calm.came_back(held, shift._release(held))
    # A whole batch, and besides nothing else is on its way.
    assert calm._next_sending() == 0.0
    calm._is_empty = False
    assert calm._next_sending() == 0.0
    calm._ended.popitem()
    assert calm._next_sending() == first.ended_at + shift.LINGER
    calm._is_stopping = True
    assert calm._next_sending() == 0.0
    busy = StorageBusy()
    busy.retry_after = 5
    before = time.monotonic()
    calm._sending_failed(list(calm._ended.values()), busy)
    assert before + 5 <= calm._next_sending()


def test_it_works_without_signals_in_another_thread_and_logs_little(
    queue: InMemoryQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fill(queue, 3)
    with Background(queue, lambda _: None) as background:
        until(lambda: statuses(queue) == ["completed"] * 3)
        background.worker.stop()
        background.ended()
    assert [record.getMessage() for record in caplog.records] == ["stopping: 0 jobs have 60 seconds"]
