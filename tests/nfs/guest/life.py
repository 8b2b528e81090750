"""Workers that enqueue, claim and finish in a loop, and write down what they are told: what the file is held to."""

from __future__ import annotations

import json
import os
import random
import time
from typing import TYPE_CHECKING, Any

from queuelog import Ending, Job, NewJob, StorageBusy, StorageUnavailable
from tests.nfs.guest.hosts import Player, bound, opened, seen_by, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import BoundQueue

LEASE_SECONDS = 40_000
#: Seconds of rest after each round, at most: others shall have their turn, and a cut its random moment.
REST = 0.03


class Diary:
    """Lines of JSON, kept by the kernel whatever becomes of the process; on no client's mount."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def note(self, *words: object) -> None:
        os.write(self._file, (json.dumps(words) + "\n").encode())


def read_diary(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Life:
    """A worker on a client, and its diary."""

    def __init__(
        self, client: int, folder: str, file: str, diaries: Path, *, batch: int, most: int | None = None
    ) -> None:
        self.name = f"{file}-{client}"
        self._diary = diaries / self.name
        self.player = Player(client, live, seen_by(client, folder, file), self.name, self._diary, batch, most)

    def notes(self) -> list[list[Any]]:
        return read_diary(self._diary)

    def has_claimed(self) -> int:
        """Return how many claims it has been given so far."""
        return sum(word == "claimed" for word, *_ in self.notes())

    def end(self) -> None:
        """Have it finish what it is at, and end."""
        self.player.tell()
        self.player.join(300)


def wait_for_claims(lives: list[Life], more: int, seconds: float = 240) -> None:
    """Wait until each has been given so many more claims."""
    goals = [life.has_claimed() + more for life in lives]
    wait_until(
        lambda: all(life.has_claimed() >= goal for life, goal in zip(lives, goals, strict=True)),
        f"{more} more claims for each of {[life.name for life in lives]}",
        seconds,
    )


def live(line: Connection, path: Path, name: str, diary: Path, batch: int, most: int | None) -> None:
    """Enqueue, claim and complete `batch` jobs in each round until told to end.

    With `most` it enqueues in so many rounds, and ends when the queue is empty.
    """
    worker = _Worker(path, name, diary, batch)
    number = 0
    while not line.poll():
        number += 1
        if most is None or number <= most:
            worker.enqueue(number)
        claimed = worker.claim(number)
        if claimed:
            worker.finish(claimed)
        elif claimed is not None and most is not None and number >= most:
            break
        time.sleep(REST * random.random())
    worker.store.close()


class _Worker:
    def __init__(self, path: Path, name: str, diary: Path, batch: int) -> None:
        self.store = opened(path)
        self.name = name
        self._queue: BoundQueue = bound(self.store, name)
        self._note = Diary(diary).note
        self._batch = batch

    def enqueue(self, number: int) -> None:
        jobs = [
            NewJob(
                type="email",
                payload={"from": self.name, "number": number, "text": "z" * 300},
                idempotency_key=f"{self.name}-{number}-{index}",
            )
            for index in range(self._batch)
        ]
        made = self._insist("enqueue", number, lambda: self._queue.enqueue_jobs(jobs))
        if made is not None:
            self._note("made", number, sorted(each.job.id for each in made))

    def claim(self, number: int) -> tuple[Job, ...] | None:
        claimed = self._insist(
            "claim",
            number,
            lambda: self._queue.claim_jobs(
                limit=self._batch, lease_seconds=LEASE_SECONDS, request_id=f"{self.name}-{number}"
            ),
        )
        if claimed is None:
            return None
        self._note("claimed", number, [(job.id, job.attempt) for job in claimed.jobs])
        return tuple(claimed.jobs)

    def finish(self, jobs: tuple[Job, ...]) -> None:
        endings = [Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in jobs]
        ended = self._insist("finish", jobs[0].id, lambda: self._queue.finish_jobs(endings))
        if ended is not None:
            refused = [str(each) for each in ended if not isinstance(each, Job)]
            self._note("completed", jobs[0].id, [(job.id, job.attempt) for job in jobs])
            if refused:
                self._note("wrong", "finish", refused)

    def _insist(self, verb: str, number: int, call: Callable[[], Any]) -> Any:
        """Return a verb's answer, or None if it was refused without being in doubt; one in doubt is repeated."""
        in_doubt = False
        while True:
            try:
                return call()
            except StorageBusy:
                self._note("busy", verb, number)
                if not in_doubt:
                    return None
            except StorageUnavailable as error:
                self._note("doubt", verb, number, repr(error.__cause__))
                in_doubt = True
                time.sleep(REST)
            except Exception as error:
                self._note("wrong", verb, repr(error))
                raise
