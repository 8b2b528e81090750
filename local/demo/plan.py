"""What the demo's jobs are, and how each has to end whatever becomes of the workers on the way."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import NamedTuple

from queuelog_client import JobPriority, JobStatus, NewJob

#: The same jobs at every run. When they are claimed, and which worker dies over them, is up to the machine.
SEED = 1
#: The template's types, and the seconds that a job of each takes, at the least and at the most.
TYPES = {"email": (0.05, 0.20), "pdf": (0.30, 0.70), "sync": (0.15, 0.40)}

_PRIORITIES = {JobPriority.CRITICAL: 10, JobPriority.HIGH: 20, JobPriority.MEDIUM: 45, JobPriority.LOW: 25}


class Fate(StrEnum):
    """What becomes of the attempts of a job, if its worker lives."""

    COMPLETES = "completes"
    FAILS_AT_FIRST = "fails at first"
    FAILS = "fails"
    FAILS_FOR_GOOD = "fails for good"
    CRASHES_AT_FIRST = "crashes at first"
    CRASHES = "crashes"
    GOES_ON = "goes on until it is called off"


class _Kind(NamedTuple):
    share: float
    status: JobStatus
    # Where the job has to complete, more than there are deaths of workers that it could be held by.
    max_retries: int = 25


_KINDS = {
    Fate.FAILS_AT_FIRST: _Kind(0.12, JobStatus.COMPLETED),
    Fate.FAILS: _Kind(0.03, JobStatus.FAILED, max_retries=2),
    Fate.FAILS_FOR_GOOD: _Kind(0.04, JobStatus.FAILED),
    Fate.CRASHES_AT_FIRST: _Kind(0.03, JobStatus.COMPLETED),
    Fate.CRASHES: _Kind(0.01, JobStatus.FAILED, max_retries=1),
    Fate.GOES_ON: _Kind(0.02, JobStatus.CANCELLED),
}


class Planned(NamedTuple):
    """A job to enqueue, and the status that it has to end in."""

    job: NewJob
    fate: Fate
    status: JobStatus

    @property
    def key(self) -> str:
        """Its idempotency key, which no other job has."""
        return str(self.job.idempotency_key)


def planned(count: int) -> list[Planned]:
    """Return so many jobs, of every type, priority and fate."""
    dice = random.Random(SEED)  # noqa: S311
    fates = [fate for fate, kind in _KINDS.items() for _ in range(max(1, round(count * kind.share)))]
    fates += [Fate.COMPLETES] * (count - len(fates))
    dice.shuffle(fates)
    return [_planned(number, fate, dice) for number, fate in enumerate(fates, 1)]


def _planned(number: int, fate: Fate, dice: random.Random) -> Planned:
    kind = _KINDS.get(fate) or _Kind(1, JobStatus.COMPLETED)
    type = dice.choice(list(TYPES))
    job = NewJob(
        type=type,
        payload={"fate": fate, "seconds": round(dice.uniform(*TYPES[type]), 3)},
        priority=dice.choices(list(_PRIORITIES), weights=list(_PRIORITIES.values()))[0],
        max_retries=kind.max_retries,
        idempotency_key=f"demo-{number}",
        # A wait of seconds before the next try is for mail servers, not for a demo.
        backoff_seconds=0,
    )
    return Planned(job, fate, kind.status)
