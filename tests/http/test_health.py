"""GET /health"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import health
from tests.http.conftest import forget
from tests.http.support import ADMIN, NOBODY, assert_problem, success

if TYPE_CHECKING:
    from pathlib import Path

    from tests.http.support import Api


def test_a_file_system_that_can_be_reached_is_ok_and_needs_no_key(api: Api) -> None:
    assert success(api.ask("health", NOBODY)) == {"status": "ok"}
    api.new_job()
    assert success(api.ask("health", ADMIN)) == {"status": "ok"}


def test_it_opens_no_file_and_makes_none(api: Api) -> None:
    success(api.ask("health"))
    assert list(api.database.parent.iterdir()) == []


def test_a_missing_mount_is_503(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUEUELOG_DATABASE", str(tmp_path / "mnt/queue/queue.db"))
    forget()
    answer = api.ask("health")
    assert_problem(answer, 503, "storage-unavailable")
    assert answer.headers["Retry-After"] == "10"
    assert str(tmp_path) not in answer.raw["body"]


def test_something_else_in_the_files_place_is_503(api: Api) -> None:
    api.database.mkdir()
    assert_problem(api.ask("health"), 503, "storage-unavailable")


@pytest.mark.parametrize("was_reachable", [True, False])
def test_an_answer_is_kept_for_five_seconds(api: Api, monkeypatch: pytest.MonkeyPatch, was_reachable: bool) -> None:
    if was_reachable:
        api.database.mkdir()
    answers = []
    for seconds_ago in (4, 5):
        monkeypatch.setattr(health, "_seen", (time.monotonic() - seconds_ago, was_reachable))
        answers.append(api.ask("health").status)
    assert answers == ([200, 503] if was_reachable else [503, 200])


def test_it_waits_for_no_lock(api: Api) -> None:
    api.new_job()
    forget()
    with closing(sqlite3.connect(api.database, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        success(api.ask("health"))
        other.execute("ROLLBACK")


def test_it_holds_nothing_that_another_could_be_waiting_for(api: Api) -> None:
    api.new_job()
    forget()
    success(api.ask("health"))
    with closing(sqlite3.connect(api.database, isolation_level=None, timeout=0)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("ROLLBACK")
