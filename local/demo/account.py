"""Whether it adds up: the plan, the queue's history of every attempt, and the workers' own notes of it, compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from local.demo.notes import Word
from queuelog_client import JobPriority, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from local.demo.notes import Note
    from local.demo.plan import Planned
    from queuelog_client import Attempt, Enqueued, Job


class Outcome(StrEnum):
    """How an attempt ended, by the queue's history."""

    COMPLETED = "completed"
    FAILED = "failed"
    LEASE_EXPIRED = "lease_expired"
    RELEASED = "released"
    CANCELLED = "cancelled"


class Seen(StrEnum):
    """How an attempt ended, by the notes of the worker that had it."""

    DID = "did it"
    RAISED = "raised"
    STOPPED = "stopped"
    #: Begun, and no word of an end.
    CUT_OFF = "cut off"
    #: Claimed by a worker that died or stopped before it came to it.
    NOT_BEGUN = "not begun"


ENDED = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)

_SEEN = {Word.DID: Seen.DID, Word.RAISED: Seen.RAISED, Word.STOPPED: Seen.STOPPED}
#: Any end of a worker explains the others.
_ONLY_AFTER = {Outcome.COMPLETED: Seen.DID, Outcome.FAILED: Seen.RAISED}
_LAST = {
    JobStatus.COMPLETED: {Outcome.COMPLETED},
    JobStatus.FAILED: {Outcome.FAILED, Outcome.LEASE_EXPIRED},
    # Called off while it ran, or while it waited to be tried again.
    JobStatus.CANCELLED: {Outcome.CANCELLED, Outcome.LEASE_EXPIRED, Outcome.RELEASED},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of the jobs and of their attempts, and a sentence for each thing that doesn't add up."""

    planned: Counter[JobStatus]
    jobs: Counter[tuple[JobPriority, JobStatus]]
    #: The median of the seconds from the enqueueing to the first claim.
    waits: Mapping[JobPriority, float]
    attempts: Counter[tuple[Outcome, Seen]]
    faults: tuple[str, ...]


def settle(
    plan: Sequence[Planned], repeated: Iterable[Enqueued], jobs: Sequence[Job], notes: Iterable[Note]
) -> Account:
    """Compare the plan, the answers to what was enqueued again, the queue's jobs with their attempts, and the notes."""
    seen, faults = _read(notes)
    attempts: Counter[tuple[Outcome, Seen]] = Counter()
    faults += _faults_of_jobs(plan, jobs)
    faults += _faults_of_repeats(repeated, jobs)
    for job in jobs:
        faults += _faults_of_history(job)
        for attempt in job.attempts or ():
            outcome = Outcome(attempt.outcome)
            how = seen.pop((job.id, attempt.attempt), Seen.NOT_BEGUN)
            attempts[outcome, how] += 1
            if how is not _ONLY_AFTER.get(outcome, how):
                faults.append(f"{_name(job.id, attempt.attempt)} is {outcome}, and its worker's notes say: {how}.")
    faults += [f"The queue knows nothing of {_name(*unknown)}, which a worker began." for unknown in seen]
    return Account(
        planned=Counter(each.status for each in plan),
        jobs=Counter((job.priority, job.status) for job in jobs),
        waits=_waits(jobs),
        attempts=attempts,
        faults=tuple(faults),
    )


def _name(job: int, attempt: int) -> str:
    return f"attempt {attempt} of job {job}"


def _read(notes: Iterable[Note]) -> tuple[dict[tuple[int, int], Seen], list[str]]:
    """Return how each attempt ended by the notes, and what is wrong with these."""
    seen: dict[tuple[int, int], Seen] = {}
    faults = []
    for note in notes:
        attempt = (note.job, note.attempt)
        if note.word is Word.BEGAN:
            if attempt in seen:
                faults.append(f"{_name(*attempt)} was begun twice.")
            seen[attempt] = Seen.CUT_OFF
        else:
            if seen.get(attempt) is not Seen.CUT_OFF:
                faults.append(f"{_name(*attempt)} ended ({note.word}) while it was not running.")
            seen[attempt] = _SEEN[note.word]
    return seen, faults


def _faults_of_jobs(plan: Sequence[Planned], jobs: Sequence[Job]) -> Iterator[str]:
    by_key: dict[str | None, list[Job]] = defaultdict(list)
    for job in jobs:
        by_key[job.idempotency_key].append(job)
    for each in plan:
        found = by_key.pop(each.key, [])
        if not found:
            yield f"The job {each.key} is lost."
        elif len(found) > 1:
            yield f"The job {each.key} is there {len(found)} times."
        elif found[0].status not in ENDED:
            yield f"Job {found[0].id} has not ended: it is {found[0].status}."
        elif found[0].status is not each.status:
            yield f"Job {found[0].id} should be {each.status} in the end, and is {found[0].status}."
    for key, strangers in by_key.items():
        yield f"Nobody has enqueued {', '.join(f'job {job.id}' for job in strangers)} ({key})."


def _faults_of_repeats(repeated: Iterable[Enqueued], jobs: Sequence[Job]) -> Iterator[str]:
    ids = {job.idempotency_key: job.id for job in jobs}
    for answer in repeated:
        if not answer.replayed or answer.job.id != ids.get(answer.job.idempotency_key):
            yield f"To enqueue {answer.job.idempotency_key} again made job {answer.job.id}."


def _faults_of_history(job: Job) -> Iterator[str]:
    attempts: Sequence[Attempt] = job.attempts or ()
    numbers = [each.attempt for each in attempts]
    if numbers != list(range(1, job.attempt + 1)):
        yield f"Job {job.id} was claimed {job.attempt} times, and its history has the attempts {numbers}."
    outcomes = [Outcome(each.outcome) for each in attempts]
    final = {Outcome.COMPLETED, Outcome.CANCELLED}
    if sum(each in final for each in outcomes) > 1:
        yield f"Job {job.id} has ended twice: {', '.join(outcomes)}."
    if job.status in ENDED and (not outcomes or outcomes[-1] not in _LAST[job.status]):
        yield f"Job {job.id} is {job.status}, and its attempts are: {', '.join(outcomes) or 'none'}."


def _waits(jobs: Iterable[Job]) -> dict[JobPriority, float]:
    waits: dict[JobPriority, list[float]] = defaultdict(list)
    for job in jobs:
        for first in (job.attempts or ())[:1]:
            waits[job.priority].append((first.claimed_at - job.created_at).total_seconds())
    return {priority: median(found) for priority, found in waits.items()}
