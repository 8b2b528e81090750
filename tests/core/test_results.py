from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuelog import Ending, InvalidJob, Job, JobStatus, NewJob, Queue, Store
from queuelog.page import JOB_BYTES_WITHOUT_PAYLOAD, MAX_PAGE_BYTES
from tests.support import SteppedClock, admin, claim, query, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queuelog import BoundQueue

EMAIL = NewJob(type="email")


def test_a_completed_job_keeps_what_its_worker_left(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    result: Any = {"url": "https://example.org/ö.pdf", "pages": [1, 2.5, None, True, {"deep": {}}], "nul": "\0"}
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    assert held.result is None
    done = as_worker.complete(held.id, lease_token=held.lease_token, result=result)
    assert (done.status, done.result) == (JobStatus.COMPLETED, result)
    assert as_producer.get(held.id) == done


def test_a_repeat_does_not_change_the_result(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    done = as_worker.complete(held.id, lease_token=held.lease_token, result="first")
    assert as_worker.complete(held.id, lease_token=held.lease_token, result="second") == done


def test_a_result_may_take_65_536_bytes_of_json(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    claim(as_worker)
    with pytest.raises(InvalidJob) as refused:
        as_worker.complete(1, result="x" * 65_535)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("result", "too_large")]
    assert as_producer.get(1).status is JobStatus.RUNNING
    assert as_worker.complete(1, result="x" * 65_534).result == "x" * 65_534


@pytest.mark.parametrize("result", [float("nan"), "\ud800", {1: 2}.keys(), b"x"], ids=ascii)
def test_a_result_is_what_json_can_hold(as_worker: BoundQueue, result: Any) -> None:
    with pytest.raises(InvalidJob) as refused:
        as_worker.complete(1, result=result)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("result", "not_json")]


class Completing:
    """A queue in one file, for jobs that are completed one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path, network=False)
        self.caller = Queue(self.store).bound(admin(), SteppedClock())

    def complete(self, result: Any) -> tuple[Job, int, str | None]:
        """Return the job, the bytes that the queue reckons for its result, and the result as it is stored."""
        made = self.caller.enqueue(EMAIL).job
        job = claim(self.caller)
        ((before,),) = query(self.path, "SELECT encoded_size FROM jobs WHERE id = ?", [made.id])
        done = self.caller.complete(made.id, lease_token=token_of(job), result=result)
        ((after, stored),) = query(self.path, "SELECT encoded_size, result FROM jobs WHERE id = ?", [made.id])
        return done, after - before, stored


@pytest.fixture(scope="module")
def completing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Completing]:
    completing = Completing(tmp_path_factory.mktemp("results") / "queue.db")
    yield completing
    completing.store.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
@example(None)
@example('"\\')
def test_any_json_comes_back_as_it_was_and_its_size_in_an_answer_is_reckoned(
    completing: Completing, result: Any
) -> None:
    done, reckoned, stored = completing.complete(result)
    assert json.dumps(done.result) == json.dumps(result)
    if result is None:
        assert (reckoned, stored) == (0, None)
    else:
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        assert stored == text
        assert reckoned == len(json.dumps(text, ensure_ascii=False).encode())


def test_a_result_belongs_to_completing_and_an_end_without_one_takes_no_room(
    as_admin: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_admin.enqueue(NewJob(type="email", backoff_seconds=0))
    sizes = set()
    for verb, result in (("release", None), ("release", "x"), ("fail", None), ("fail", "x"), ("complete", None)):
        (job,) = as_worker.finish_jobs([Ending(id=claim(as_worker).id, verb=verb, result=result)])
        assert isinstance(job, Job)
        assert job.result is None
        sizes |= set(query(path, "SELECT encoded_size, result FROM jobs"))
    assert sizes == {(len('"{}"'), None)}


def answered(job: Job) -> int:
    """The bytes of a job in a Lambda answer: JSON, quoted once more as the body."""
    text = json.dumps(asdict(job), default=str, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize("letter", ["a", '"', "\x01", "🂡"], ids=ascii)
def test_a_page_with_results_ends_before_the_answer_is_too_large_for_lambda(as_admin: BoundQueue, letter: str) -> None:
    size = len(json.dumps(letter, ensure_ascii=False).encode()) - 2
    large = letter * ((65_536 - 8) // size)
    for _ in range(60):
        as_admin.enqueue(NewJob(type="email", payload={"a": large}))
    jobs: list[Job] = []
    while claimed := as_admin.claim_jobs(limit=100).jobs:
        jobs += claimed
    endings = [Ending(id=job.id, verb="complete", lease_token=job.lease_token, result=large) for job in jobs]
    assert len(as_admin.finish_jobs(endings)) == 60
    shown = 0
    cursor = None
    while True:
        page = as_admin.list(limit=100, cursor=cursor)
        assert 0 < sum(map(answered, page.jobs)) <= MAX_PAGE_BYTES
        shown += len(page.jobs)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert shown == 60


def test_what_a_job_takes_besides_payload_and_result_is_never_more_than_is_reckoned(
    as_admin: BoundQueue, path: Path
) -> None:
    as_admin.enqueue(NewJob(type="t" * 100))
    held = claim(as_admin, lease_seconds=43_200)
    # 4,096 bytes of JSON that are twice as many in an answer, where each quote takes four.
    progress = {"a": '"' * ((4_096 - 8) // 2)}
    as_admin.heartbeat(held.id, lease_token=token_of(held), progress=progress)
    query(
        path,
        "UPDATE jobs SET error = ?, idempotency_key = ?, worker_id = ?, created_by = ?, "
        "fingerprint = hex(zeroblob(32)), reason = 'lease_expired', "
        "retry_count = 25, max_retries = 25, attempt = 9007199254740991, lease_expiries = 9007199254740991, "
        "replays = 9007199254740991, backoff_seconds = 86400, cancel_requested = 1",
        ["\x01" * 1_000, '"' * 255, "\\" * 255, '"' * 255],
    )
    assert answered(as_admin.get(1)) <= JOB_BYTES_WITHOUT_PAYLOAD
