from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import DatabaseCorrupt, NewJob, NotADatabase, Queue, SchemaTooNew, StorageError, Store
from queuelog.store import migrations
from queuelog.store.migrations import APPLICATION_ID, Migration, Version
from tests.support import SteppedClock, add_jobs, admin, claim, query

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue


#: As PRAGMA user_version has it.
NEWEST = 1_002


def version(path: Path) -> int:
    ((number,),) = query(path, "PRAGMA user_version")
    return int(number)


def test_a_new_file_gets_the_whole_schema_at_once(as_admin: BoundQueue, path: Path) -> None:
    as_admin.list()
    assert version(path) == NEWEST
    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    tables = query(path, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    assert [name for (name,) in tables] == ["attempts", "counts", "holders", "jobs", "sqlite_sequence"]


def test_the_application_id_says_qlog() -> None:
    assert APPLICATION_ID.to_bytes(4) == b"QLOG"


def test_an_empty_file_is_a_new_one(as_admin: BoundQueue, path: Path) -> None:
    path.touch()
    assert as_admin.enqueue(NewJob(type="email")).job.id == 1


def test_a_newer_minor_schema_is_accepted_and_left_as_it_is(as_admin: BoundQueue, path: Path) -> None:
    made = as_admin.enqueue(NewJob(type="email")).job
    as_admin.queue._store.close()
    query(path, "ALTER TABLE jobs ADD COLUMN paused_at TEXT CONSTRAINT later CHECK (length(paused_at) = 24)")
    query(path, "CREATE TABLE tasks (id INTEGER PRIMARY KEY)")
    query(path, "PRAGMA user_version = 1007")
    assert as_admin.get(made.id) == made
    assert as_admin.enqueue(NewJob(type="email")).job.id == 2
    assert as_admin.complete(claim(as_admin).id).id == 1
    assert as_admin.fail(claim(as_admin).id).id == 2
    assert version(path) == 1_007


@pytest.mark.parametrize("number", [2_000, 2_001, 999_999])
def test_a_newer_major_schema_is_refused_and_not_touched(as_admin: BoundQueue, path: Path, number: int) -> None:
    as_admin.enqueue(NewJob(type="email"))
    as_admin.queue._store.close()
    query(path, f"PRAGMA user_version = {number}")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match="deploy that release or a later one"):
            as_admin.list()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "pragma", ["user_version = 0", "user_version = 1000", "user_version = 20260131", "application_id = 7"]
)
def test_another_application_s_database_is_refused_and_not_touched(
    as_admin: BoundQueue, path: Path, pragma: str
) -> None:
    query(path, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, mine TEXT)")
    query(path, f"PRAGMA {pragma}")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(NotADatabase, match="another application"):
            as_admin.enqueue(NewJob(type="email"))
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content", [b"not a database at all, whatever its name says\n" * 99, b"\0" * 4_096, b"SQLite format 3\0"]
)
def test_a_file_that_is_no_database_is_refused_and_not_touched(
    as_admin: BoundQueue, path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(NotADatabase):
            as_admin.list()
    assert path.read_bytes() == content


@pytest.fixture
def large(as_admin: BoundQueue, path: Path) -> Path:
    as_admin.list()
    add_jobs(path, 2_000, payload="json_object('a', printf('%*c', 200, 'x'))")
    as_admin.queue._store._database.checkpoint()
    as_admin.queue._store.close()
    assert path.stat().st_size > 300_000
    return path


def test_a_truncated_file_is_corrupt(as_admin: BoundQueue, large: Path) -> None:
    large.write_bytes(large.read_bytes()[: 4_096 * 20])
    with pytest.raises(DatabaseCorrupt, match="restore a backup"):
        as_admin.enqueue(NewJob(type="email"))
    with pytest.raises(DatabaseCorrupt):
        list_all(as_admin)


def test_an_overwritten_page_is_corrupt(as_admin: BoundQueue, large: Path) -> None:
    content = bytearray(large.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    large.write_bytes(content)
    with pytest.raises(DatabaseCorrupt):
        as_admin.list()
    with pytest.raises(DatabaseCorrupt):
        as_admin.claim()


@pytest.mark.parametrize("damage", [b"\xff", b""], ids=["overwritten", "truncated"])
def test_a_backup_of_a_damaged_file_is_refused(as_admin: BoundQueue, large: Path, damage: bytes) -> None:
    content = large.read_bytes()
    large.write_bytes(content[: 4_096 * 20] + damage * (len(content) - 4_096 * 20))
    for _ in range(2):
        with pytest.raises(DatabaseCorrupt):
            as_admin.queue._store.back_up(large.with_name("copy.db"))


def test_a_backup_of_what_is_no_database_is_refused(as_admin: BoundQueue, path: Path) -> None:
    path.write_bytes(b"not a database at all, whatever its name says\n" * 99)
    with pytest.raises(NotADatabase):
        as_admin.queue._store.back_up(path.with_name("copy.db"))


def test_a_backup_holds_every_job_and_is_a_queue_of_its_own(
    as_admin: BoundQueue, large: Path, network: bool, clock: SteppedClock
) -> None:
    held = claim(as_admin)
    copy = large.with_name("copy.db")
    as_admin.queue._store.back_up(copy)
    as_admin.enqueue(NewJob(type="email"))
    store = Store(copy, network=network)
    caller = Queue(store).bound(admin(), clock)
    assert len(list_all(caller)) == 2_000
    assert caller.complete(held.id, lease_token=held.lease_token).id == held.id
    store.close()
    assert query(copy, "PRAGMA integrity_check") == [("ok",)]


def test_a_restored_backup_serves_at_once(as_admin: BoundQueue, large: Path) -> None:
    backup = large.read_bytes()
    large.write_bytes(backup[: 4_096 * 20])
    with pytest.raises(DatabaseCorrupt):
        list_all(as_admin)
    large.write_bytes(backup)
    assert len(list_all(as_admin)) == 2_000


def list_all(caller: BoundQueue) -> list[int]:
    found: list[int] = []
    page = caller.list(limit=100)
    while True:
        found += [job.id for job in page.jobs]
        if page.next_cursor is None:
            return found
        page = caller.list(limit=100, cursor=page.next_cursor)


@pytest.mark.parametrize("size", [50, 99])
def test_less_than_a_header_is_no_database(as_admin: BoundQueue, large: Path, size: int) -> None:
    large.write_bytes(large.read_bytes()[:size])
    with pytest.raises(StorageError) as refused:
        as_admin.list()
    assert type(refused.value) in {NotADatabase, DatabaseCorrupt}


def test_migrations_are_numbered_and_named_by_their_files() -> None:
    known = migrations.load()
    assert [migration.version for migration in known] == sorted({migration.version for migration in known})
    assert known[0].version == (1, 0)
    for each in (files("queuelog.store") / "migrations").iterdir():
        assert re.fullmatch(r"\d+\.\d{3}_[a-z_]+\.sql", each.name)


def test_the_tenth_version_comes_after_the_ninth() -> None:
    assert Version(1, 9) < Version(1, 10) < Version(2, 0)


NEXT = Migration(
    Version(1, 3), "ALTER TABLE jobs ADD COLUMN note TEXT;\n\n-- Why.\nCREATE INDEX notes ON jobs (note);\n"
)


def release(monkeypatch: pytest.MonkeyPatch, *later: Migration) -> None:
    known = [*migrations.load(), *later]
    monkeypatch.setattr(migrations, "load", lambda: known)


def test_a_new_release_migrates_a_file_with_its_jobs(
    as_admin: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = as_admin.enqueue(NewJob(type="email")).job
    as_admin.queue._store.close()
    release(monkeypatch, NEXT)
    assert as_admin.get(made.id) == made
    assert version(path) == 1_003
    assert query(path, "SELECT note FROM jobs INDEXED BY notes WHERE note IS NULL") == [(None,)]


def test_a_new_file_gets_every_migration_at_once(
    as_admin: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(monkeypatch, NEXT, Migration(Version(1, 4), "DROP INDEX notes;"))
    assert as_admin.enqueue(NewJob(type="email")).job.id == 1
    assert version(path) == 1_004


def test_a_migration_that_fails_changes_nothing(
    as_admin: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_admin.enqueue(NewJob(type="email"))
    as_admin.queue._store.close()
    with monkeypatch.context() as broken:
        release(
            broken,
            NEXT,
            Migration(Version(1, 4), "CREATE INDEX fine ON jobs (id);\nCREATE INDEX bad ON nowhere (id);\n"),
        )
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            as_admin.list()
    assert version(path) == NEWEST
    assert query(path, "SELECT count(*) FROM sqlite_schema WHERE name IN ('notes', 'fine')") == [(0,)]
    assert len(as_admin.list().jobs) == 1


def test_a_release_that_is_one_minor_behind_goes_on_beside_the_new_one(
    as_admin: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch, network: bool, clock: SteppedClock
) -> None:
    as_admin.enqueue(NewJob(type="email"))
    with monkeypatch.context() as newer:
        release(newer, NEXT)
        store = Store(path, network=network)
        Queue(store).bound(admin(), clock).enqueue(NewJob(type="email"))
        store.close()
    assert [job.id for job in as_admin.list().jobs] == [2, 1]
    assert as_admin.enqueue(NewJob(type="email")).job.id == 3
    assert claim(as_admin).id == 1


class Overtaken(sqlite3.Connection):
    """A connection that another process overtakes right before one of its statements."""

    overtake: Any = None
    before = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        if self.before == 0:
            self.overtake()
        self.before -= 1
        return super().execute(*arguments)


@pytest.mark.parametrize("statement", [0, 1, 2])
def test_a_file_that_another_process_makes_meanwhile_is_not_taken_for_a_foreign_one(path: Path, statement: int) -> None:
    store = Store(path, network=False)
    as_admin = Queue(store).bound(admin())
    with closing(sqlite3.connect(path, factory=Overtaken)) as connection:
        connection.overtake = as_admin.list
        connection.before = statement
        assert [each.version for each in migrations.pending(connection)] in ([(1, 0), (1, 1), (1, 2)], [])
    as_admin.list()
    with closing(sqlite3.connect(path)) as connection:
        assert migrations.pending(connection) == []
    store.close()


def test_several_may_make_a_new_file_at_once(path: Path, network: bool, clock: SteppedClock) -> None:
    stores = [Store(path, network=network) for _ in range(8)]
    gate = threading.Barrier(len(stores))
    made = []

    def enqueue(store: Store) -> None:
        gate.wait()
        made.append(Queue(store).bound(admin(), clock).enqueue(NewJob(type="email")).job.id)

    threads = [threading.Thread(target=enqueue, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert sorted(made) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert version(path) == NEWEST
