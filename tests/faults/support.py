"""A queue that something befalls: what its callers hear over HTTP, what its store raises, what the log says."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

import web.app
from queuelog import JobStatus, NewJob, Queue, StorageError, Store
from tests.http.support import ADMIN, assert_problem, success
from tests.support import ROOT, admin, miscounted, unaccounted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue
    from tests.http.conftest import Log
    from tests.http.support import Answer, Api

ANY = NewJob(type="email")
LARGE = NewJob(type="email", payload={"a": "x" * 60_000})

#: What operators find explained.
EXPLAINED = re.findall(
    r"^\| ([A-Z][^|]+) \|",
    (ROOT / "docs/operations.md").read_text("utf-8").partition("\n## When the storage fails\n")[2],
    re.MULTILINE,
)
#: What no caller may hear of.
INTERNALS = re.compile(
    r"Traceback|Error|QUEUELOG_|queue\.db|(?i:sqlite|database|director|disk|file|mount|permi|read-only)"
)


class Site:
    """The functions of one sandbox and their store, and what they have acknowledged."""

    def __init__(self, api: Api, log: Log) -> None:
        """Use it for a while: three jobs are there, and a worker holds the first."""
        self.api = api
        self.path: Path = api.database
        self.made: list[int] = []
        self.ended: set[int] = set()
        self.enqueue(ANY, ANY, ANY)
        self.held: dict[str, Any] = api.claimed_job()
        self._log = log
        self._read = len(log.text)

    @property
    def store(self) -> Store:
        """The one that the functions use."""
        return web.app.store()

    @property
    def caller(self) -> BoundQueue:
        """The same queue without the functions."""
        return Queue(self.store).bound(admin(), self.api.clock)

    def enqueue(self, *jobs: NewJob) -> None:
        """Enqueue a batch, and remember that it was acknowledged."""
        self.made += [enqueued.job.id for enqueued in self.caller.enqueue_jobs(jobs)]

    def settle(self) -> bytes:
        """Close the queue with all of it in its one file, whatever else was beside it; return what the file holds."""
        copy = self.path.with_name("copy.db")
        self.store.back_up(copy)
        self.store.close()
        for each in self.path.parent.glob("queue.db*"):
            each.unlink()
        copy.rename(self.path)
        self.caller.list()
        self.store.close()
        return self.path.read_bytes()

    def changes(self) -> dict[str, Callable[[], Answer]]:
        """Return a request to each route that has to write for it."""
        api, id, token = self.api, self.held["id"], self.held["lease_token"]
        return {
            "enqueue_job": api.enqueue,
            "claim_job": api.claim,
            "heartbeat_job": lambda: api.heartbeat(id, lease_token=token),
            "complete_job": lambda: api.complete(id, lease_token=token),
            "fail_job": lambda: api.fail(id, lease_token=token),
            "release_job": lambda: api.release(id, lease_token=token),
            "cancel_job": lambda: api.cancel(id, ADMIN),
            "enqueue_jobs": lambda: api.enqueue_jobs([{"type": "email"}]),
            "claim_jobs": lambda: api.claim_jobs(limit=2),
            "heartbeat_jobs": lambda: api.heartbeat_jobs([{"id": id, "lease_token": token}]),
            "finish_jobs": lambda: api.finish_jobs([{"id": id, "lease_token": token, "outcome": "completed"}]),
        }

    def looks(self) -> dict[str, Callable[[], Answer]]:
        """Return a request to each route that only reads for it."""
        api = self.api
        return {
            "list_jobs": api.list,
            "get_job": lambda: api.get(self.held["id"]),
            "explain_job": lambda: api.explain(self.made[-1]),
            "get_stats": api.stats,
            "retry_jobs": lambda: api.retry_jobs(status="failed"),
        }

    def assert_raises(self, error: type[StorageError], act: Callable[[], object], says: str) -> None:
        """Check that a verb of the store raises this error, in words that an operator can act on."""
        with pytest.raises(StorageError, match=says) as raised:
            act()
        assert type(raised.value) is error

    def assert_refused(self, answer: Answer, status: int, slug: str, says: str) -> None:
        """Check that a caller hears of nothing inside, and that the log says what is wrong, and where."""
        assert_problem(answer, status, slug)
        assert INTERNALS.search(answer.raw["body"]) is None, answer.body
        self.assert_logged(says)

    def assert_logged(self, says: str) -> dict[str, Any]:
        """Check the one line for operators since the last such check, which the documentation explains; return it."""
        text = self._log.text
        new, self._read = text[self._read :].splitlines(), len(text)
        (line,) = [line for line in map(json.loads, new) if line["level"] == "ERROR"]
        assert re.search(says, line["message"]), line
        assert [each for each in EXPLAINED if each in line["message"]] != [], line
        assert line["database"] == str(self.path)
        assert line["help"] == "docs/operations.md, When the storage fails"
        found: dict[str, Any] = line
        return found

    def assert_nothing_lost(self, in_doubt: int = 0) -> None:
        """Check that whatever was acknowledged is there, and that the same process goes on.

        in_doubt: jobs that may be there, too, since a caller was told that the outcome is unknown.
        """
        found = self.ids()
        assert set(self.made) <= set(found)
        assert len(found) <= len(self.made) + in_doubt
        self.assert_sound()
        done = success(self.api.complete(self.held["id"], lease_token=self.held["lease_token"]))
        assert (done["status"], done["attempt"]) == (JobStatus.COMPLETED, 1)
        new = self.api.new_job(ADMIN)["id"]
        assert new not in found
        assert sorted(self.claim_all()) == sorted({*found, new} - {*self.ended, self.held["id"]})

    def claim_all(self) -> list[int]:
        """Claim over HTTP until nothing is due."""
        claimed: list[int] = []
        while (answer := self.api.claim_jobs(limit=100)).status == HTTPStatus.OK:
            claimed += [job["id"] for job in answer.body["jobs"]]
        return claimed

    def ids(self) -> list[int]:
        """Return the ids of all jobs there are."""
        found, cursor = [], None
        while True:
            page = self.caller.list(limit=100, cursor=cursor)
            found += [job.id for job in page.jobs]
            cursor = page.next_cursor
            if cursor is None:
                return found

    def assert_sound(self) -> None:
        """Check a copy of the file from end to end, which can be made in whatever way the file is used."""
        copy = self.path.with_name("copy.db")
        self.store.back_up(copy)
        assert miscounted(copy) == set()
        assert unaccounted(copy) == []
        copy.unlink()
