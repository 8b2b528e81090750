"""What callers hear when the file or its file system fails; every fault is a real one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pytest

import web.app
from queuelog import Store
from tests.http.bodies import RIGHT
from tests.http.conftest import forget
from tests.http.support import ADMIN, GUARDED, WITH_BODY, WITH_ID, Answer, assert_problem, success, with_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.http.conftest import Log
    from tests.http.support import Api


def ask(api: Api, function: str) -> Answer:
    return api.ask(function, ADMIN, body=RIGHT.get(function))


@pytest.fixture
def impatient(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The same, but for a store that waits for others a twentieth of a second and not five seconds."""
    store = cache(lambda: Store(api.database, busy_timeout=0.05))
    with monkeypatch.context() as patch:
        patch.setattr(web.app, "store", store)
        yield api
        store().close()


@contextmanager
def locked(database: Path, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as other:
        if begin == "BEGIN EXCLUSIVE":
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute(begin)
        yield other
        other.execute("ROLLBACK")


@pytest.mark.parametrize("function", WITH_BODY)
def test_a_file_that_others_keep_busy_is_503_with_a_pause(impatient: Api, function: str, log: Log) -> None:
    for _ in range(3):
        impatient.new_job(ADMIN, max_retries=0)
    for _ in range(2):
        impatient.claimed_job(ADMIN)
    success(impatient.fail(2, ADMIN))
    before = success(impatient.list())
    with locked(impatient.database):
        answer = ask(impatient, function)
    assert_problem(answer, 503, "storage-busy")
    assert answer.headers["Retry-After"] == "2"
    assert success(impatient.list()) == before
    assert [line["level"] for line in log.lines if line["message"].startswith("Other callers")] == ["ERROR"]


def test_a_busy_file_is_right_again_afterwards(impatient: Api) -> None:
    impatient.new_job()
    with locked(impatient.database):
        assert impatient.claim().status == 503
    impatient.claimed_job()


def test_readers_wait_for_no_writer(impatient: Api) -> None:
    job = impatient.new_job()
    impatient.claimed_job()
    with locked(impatient.database):
        success(impatient.list())
        success(impatient.get(job["id"]))


@pytest.mark.parametrize("function", GUARDED)
def test_a_file_that_another_has_for_itself_is_503_with_a_pause(impatient: Api, function: str) -> None:
    impatient.new_job()
    web.app.store().close()
    with locked(impatient.database, "BEGIN EXCLUSIVE"):
        assert_problem(ask(impatient, function), 503, "storage-busy")
    assert ask(impatient, function).status < 500


@pytest.mark.parametrize("function", GUARDED)
def test_a_file_that_is_no_database_is_500_and_a_sentence_in_the_log(api: Api, function: str, log: Log) -> None:
    api.database.write_bytes(b"not a database, but longer than its header" * 100)
    answer = ask(api, function)
    assert_problem(answer, 500, "internal-error")
    assert_tells_nothing(answer, api)
    assert "not an SQLite database: move it away" in log.text
    assert api.database.read_bytes().startswith(b"not a database")


def test_another_applications_database_is_500_and_a_sentence_in_the_log(api: Api, log: Log) -> None:
    with closing(sqlite3.connect(api.database)) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
    assert_problem(api.list(), 500, "internal-error")
    assert "another application's SQLite database" in log.text


def test_a_newer_major_release_is_500_and_a_sentence_in_the_log(api: Api, log: Log) -> None:
    api.new_job()
    forget()
    with closing(sqlite3.connect(api.database)) as other:
        other.execute("PRAGMA user_version = 2000")
    assert_problem(api.list(), 500, "internal-error")
    assert "newer major release" in log.text


@pytest.mark.parametrize("function", GUARDED)
def test_a_directory_in_the_files_place_is_503(api: Api, function: str) -> None:
    api.database.mkdir()
    answer = ask(api, function)
    assert_problem(answer, 503, "storage-unavailable")
    assert answer.headers["Retry-After"] == "10"
    assert_tells_nothing(answer, api)


@pytest.mark.parametrize("function", GUARDED)
def test_a_missing_mount_is_503(api: Api, function: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUEUELOG_DATABASE", str(tmp_path / "mnt/queue.db"))
    forget()
    answer = ask(api, function)
    assert_problem(answer, 503, "storage-unavailable")
    assert_tells_nothing(answer, api)


def test_a_mount_that_comes_back_is_used_again(api: Api) -> None:
    api.database.mkdir()
    assert api.enqueue().status == 503
    api.database.rmdir()
    success(api.enqueue(), 201)


@pytest.mark.parametrize("function", GUARDED)
def test_a_fault_that_nobody_thought_of_is_500_without_its_text(api: Api, function: str, log: Log) -> None:
    api.new_job(payload={"to": "ada@example.com"})
    with closing(sqlite3.connect(api.database)) as other:
        other.execute("ALTER TABLE jobs RENAME TO mislaid")
    answer = ask(api, function)
    assert_problem(answer, 500, "internal-error")
    assert_tells_nothing(answer, api)
    (error,) = [line for line in log.lines if line["level"] == "ERROR"]
    assert error["exception_name"] == "OperationalError"
    assert "no such table: jobs" in error["exception"]
    assert error["request_id"] == "6f1d2c3b-0000-4000-8000-000000000001"
    assert "ada@example.com" not in log.text


def test_after_a_fault_the_next_request_is_answered(api: Api) -> None:
    api.new_job()
    with closing(sqlite3.connect(api.database)) as other:
        other.execute("ALTER TABLE jobs RENAME TO mislaid")
        assert api.list().status == 500
        other.execute("ALTER TABLE mislaid RENAME TO jobs")
    success(api.list())


@pytest.mark.parametrize("function", WITH_BODY)
def test_a_request_that_is_wrong_in_itself_needs_no_file(api: Api, function: str) -> None:
    api.database.write_bytes(b"not a database" * 100)
    assert_problem(api.ask(function, ADMIN, body=b"["), 400, "invalid-json")
    if function in WITH_ID:
        assert_problem(api.ask(function, ADMIN, id="007"), 404, "not-found")
    assert_problem(api.ask(function, ADMIN, body={"colour": 1}), 422, "validation-failed")
    assert_problem(api.ask(function, with_key("nobody-special")), 403, "forbidden")


def assert_tells_nothing(answer: Answer, api: Api) -> None:
    text = answer.raw["body"]
    for word in ("Traceback", "sqlite", "SQLite", "OperationalError", "no such table", "File ", str(api.database)):
        assert word not in text
