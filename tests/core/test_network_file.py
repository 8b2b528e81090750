"""The way in which hosts share a file, on a local disk; tests/nfs has the same over a real NFS."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queuelog import (
    JobStatus,
    NewJob,
    PythonTooOld,
    Queue,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    Store,
    UnsafeJournalMode,
)
from queuelog.store import migrations, network_file, snapshots
from tests import first_release
from tests.support import (
    SteppedClock,
    add_jobs,
    admin,
    assert_unlocked,
    claim,
    held,
    is_shared,
    query,
    run_python,
    start_python,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader, BufferedWriter

    from queuelog import BoundQueue

ANY = NewJob(type="email")
LARGE = NewJob(type="email", payload={"a": "x" * 60_000})
NAMES = ["queue.db", "queue.db-journal", "queue.db-shm", "queue.db-wal"]


@pytest.fixture
def remote(path: Path) -> Iterator[Store]:
    store = Store(path, network=True, busy_timeout=0.05)
    yield store
    store.close()


@pytest.fixture
def caller(remote: Store) -> BoundQueue:
    return bound(remote)


def bound(store: Store) -> BoundQueue:
    return Queue(store).bound(admin())


def content(path: Path) -> dict[str, bytes | str]:
    """What lies in the file's directory, each with its content, or where it leads to."""
    return {
        each.name: str(each.readlink()) if each.is_symlink() else each.read_bytes() for each in path.parent.iterdir()
    }


def is_sound(path: Path) -> bool:
    return query(path, "PRAGMA integrity_check") == [("ok",)]


def in_wal_mode(path: Path) -> bool:
    return path.read_bytes()[18:20] == b"\x02\x02"


def wal_size(path: Path) -> int:
    return path.with_name("queue.db-wal").stat().st_size


@pytest.fixture
def old(path: Path) -> first_release.FirstRelease:
    """A file of the first release, with 200 jobs, in the journal mode that it had on a network."""
    first = first_release.make_file(path)
    add_jobs(path, 200)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("UPDATE jobs SET type = type")
    assert path.with_name("queue.db-journal").is_file()
    return first


# Others are shut out.


@pytest.mark.parametrize("options", ["", "?mode=ro", "?nolock=1", "?readonly_shm=1", "?vfs=unix-dotfile"])
def test_an_ordinary_sqlite_can_not_open_a_file_that_hosts_share(caller: BoundQueue, path: Path, options: str) -> None:
    caller.enqueue(ANY)
    before = content(path)
    for statement in ("SELECT count(*) FROM jobs", "DELETE FROM jobs", "PRAGMA journal_mode = DELETE", "VACUUM"):
        with (
            closing(sqlite3.connect(f"{path.as_uri()}{options}", uri=True, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError),
        ):
            other.execute(statement)
    assert content(path) == before
    assert caller.get(1).status is JobStatus.PENDING


def test_the_names_that_an_ordinary_sqlite_would_use_say_what_to_do(caller: BoundQueue, path: Path) -> None:
    caller.list()
    assert sorted(content(path)) == NAMES
    for name in ("queue.db-shm", "queue.db-journal"):
        assert path.with_name(name).readlink().name.endswith("copy-it-with--python-m-queuelog-snapshot")
        with pytest.raises(NotADirectoryError):
            path.with_name(name).write_text("nothing can be made there")


OLD_CONNECTION = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("PRAGMA journal_mode = PERSIST")
connection.execute("PRAGMA locking_mode = NORMAL")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE jobs SET type = type")
print("begun", flush=True)
for line in sys.stdin:
    if line == "commit\\n":
        connection.execute("COMMIT")
        print("committed", flush=True)
    else:
        for statement in ("BEGIN IMMEDIATE", "SELECT count(*) FROM jobs", "UPDATE jobs SET type = 'pdf'"):
            try:
                connection.execute(statement).fetchall()
                print("done")
            except sqlite3.Error as error:
                print(error.sqlite_errorname)
        break
"""


def test_a_connection_of_the_first_release_gets_an_error_after_the_conversion_and_writes_nothing(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path
) -> None:
    connection = start_python("-c", OLD_CONNECTION, str(path), stdin=subprocess.PIPE)
    assert connection.stdin is not None
    assert connection.stdout is not None
    assert connection.stdout.readline() == "begun\n"
    connection.stdin.write("commit\n")
    connection.stdin.flush()
    assert connection.stdout.readline() == "committed\n"
    made = caller.enqueue(ANY).job
    before = content(path)
    output, _ = connection.communicate("again\n")
    # Its own name for that is StorageUnavailable.
    assert output.split() == ["SQLITE_CANTOPEN"] * 3
    assert content(path) == before
    assert caller.get(made.id) == made


def test_the_conversion_waits_for_transactions_of_the_first_release(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path
) -> None:
    connection = start_python("-c", OLD_CONNECTION, str(path), stdin=subprocess.PIPE)
    assert connection.stdout is not None
    assert connection.stdout.readline() == "begun\n"
    with pytest.raises(StorageBusy):
        caller.list()
    assert not in_wal_mode(path)
    connection.communicate("commit\n")
    assert len(caller.list(limit=100).jobs) == 100


def test_a_journal_that_comes_late_is_not_played_back(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path
) -> None:
    journal = path.with_name("queue.db-journal")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA cache_size = 5")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE jobs SET payload = '{\"a\": \"' || printf('%*c', 900, 'x') || '\"}'")
        hot = journal.read_bytes()
        assert hot.startswith(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
        connection.execute("ROLLBACK")
    # As of a host that was cut off in the middle of its commit, and holds the journal open.
    with journal.open("r+b") as late:
        made = caller.enqueue(ANY).job
        late.write(hot)
        late.flush()
        os.fsync(late.fileno())
    with pytest.raises(NotADirectoryError):
        journal.write_bytes(hot)
    assert caller.get(made.id) == made
    assert is_sound(path)


# How a file becomes one that hosts share.


def test_a_new_file_is_shared_from_its_first_transaction(caller: BoundQueue, path: Path) -> None:
    assert caller.enqueue(ANY).job.id == 1
    assert in_wal_mode(path)
    assert is_shared(path)
    assert query(path, "PRAGMA application_id") == [(migrations.APPLICATION_ID,)]


def test_a_file_of_the_first_release_is_converted_with_all_its_jobs(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path
) -> None:
    before = query(path, "SELECT id, type, status, payload FROM jobs")
    assert caller.enqueue(ANY).job.id == 201
    assert in_wal_mode(path)
    assert is_shared(path)
    assert query(path, "SELECT id, type, status, payload FROM jobs WHERE id <= 200") == before
    assert is_sound(path)


CRASH = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("PRAGMA cache_size = 5")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE jobs SET error = printf('%*c', 900, 'x')")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("mode", ["PERSIST", "DELETE", "TRUNCATE"])
def test_the_conversion_rolls_back_what_a_killed_writer_left(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path, mode: str
) -> None:
    before = query(path, "SELECT * FROM jobs")
    intact = path.read_bytes()
    with pytest.raises(AssertionError):
        run_python(CRASH, str(path), mode)
    assert path.read_bytes() != intact
    caller.list()
    columns = "id, type, priority, status, due_at, retry_count, max_retries, claimed_at, worker_id, created_by"
    assert query(path, f"SELECT {columns} FROM jobs") == [row[:10] for row in before]
    assert query(path, "SELECT count(*) FROM jobs WHERE error IS NOT NULL") == [(0,)]
    assert is_sound(path)


KILL_AT_EVERY_STEP = """
import os, shutil, signal, sys
from pathlib import Path
from queuelog import NewJob, Principal, Queue, Role, Store

path, old = Path(sys.argv[1]), sys.argv[2]

def enqueue_and_count():
    store = Store(path, network=True)
    caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
    before = len(caller.list(limit=100).jobs)
    assert caller.enqueue(NewJob(type="email")).job.id == before + 1
    with store._database.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    store.close()
    return before

def die_at(step):
    left = step

    def count(event, arguments):
        nonlocal left
        if event.startswith(("open", "os.", "sqlite3.connect", "fcntl.")):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def counting(function):
        def counted(*arguments):
            count("os.", arguments)
            result = function(*arguments)
            count("os.", arguments)
            return result
        return counted

    os.pwrite, os.fsync, os.replace = counting(os.pwrite), counting(os.fsync), counting(os.replace)
    sys.addaudithook(count)
    enqueue_and_count()

for step in range(1, 400):
    if old:
        shutil.copy(old, path)
    # A fork, since Python starts slowly.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_at(step)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    was_converted = path.exists() and path.read_bytes()[18:20] == bytes([2, 2])
    print(step, os.WIFSIGNALED(status), was_converted, enqueue_and_count())
    assert path.read_bytes()[18:20] == bytes([2, 2])
    for each in path.parent.glob("queue.db*"):
        each.unlink()
    if os.WIFEXITED(status):
        assert status == 0
        break
"""


def killed_at_every_step(path: Path, old: Path | str) -> list[tuple[bool, int]]:
    """Kill a process that converts a file, at its first step that can be told from outside, its second, and so on.

    Returns for each whether the file was converted by then, and how many jobs the next opener found.
    """
    steps = [line.split() for line in run_python(KILL_AT_EVERY_STEP, str(path), str(old)).splitlines()]
    assert [killed for _, killed, _, _ in steps] == ["True"] * (len(steps) - 1) + ["False"]
    assert len(steps) > 20
    return [(converted == "True", int(found)) for _, _, converted, found in steps]


def test_a_conversion_that_is_killed_at_any_point_is_ended_by_the_next_opener(path: Path) -> None:
    old = path.with_name("old.db")
    first_release.make_file(old)
    add_jobs(old, 20)
    steps = killed_at_every_step(path, old)
    assert {found for was_converted, found in steps if not was_converted} == {20}
    assert {found for was_converted, found in steps if was_converted} == {20, 21}


def test_a_new_file_whose_making_is_killed_at_any_point_is_made_by_the_next_opener(path: Path) -> None:
    steps = killed_at_every_step(path, "")
    assert {found for was_converted, found in steps if not was_converted} == {0}
    assert {found for was_converted, found in steps if was_converted} == {0, 1}


def test_a_file_in_ordinary_wal_is_refused_and_not_touched(caller: BoundQueue, path: Path) -> None:
    local = Store(path, network=False)
    bound(local).enqueue(ANY)
    in_use = content(path)
    with pytest.raises(UnsafeJournalMode, match="PRAGMA journal_mode = DELETE"):
        caller.enqueue(ANY)
    assert content(path) == in_use
    local.close()
    at_rest = content(path)
    for _ in range(2):
        with pytest.raises(UnsafeJournalMode):
            caller.list()
    assert content(path) == at_rest
    query(path, "PRAGMA journal_mode = DELETE")
    assert caller.enqueue(ANY).job.id == 2


def test_a_file_beside_another_ones_wal_is_refused_and_not_touched(
    old: first_release.FirstRelease, caller: BoundQueue, path: Path
) -> None:
    path.with_name("queue.db-wal").write_bytes(b"left by another database")
    before = content(path)
    with pytest.raises(UnsafeJournalMode, match="another database"):
        caller.list()
    assert content(path) == before
    path.with_name("queue.db-wal").unlink()
    assert len(caller.list().jobs) == 50


@pytest.mark.parametrize("told", [None, False])
def test_a_file_that_is_shared_stays_so_wherever_it_lies(caller: BoundQueue, path: Path, told: bool | None) -> None:
    caller.enqueue(ANY)
    other = Store(path, network=told)
    assert bound(other).enqueue(ANY).job.id == 2
    other.close()
    assert sorted(content(path)) == NAMES


def test_a_file_that_a_link_leads_to_has_one_wal_and_one_lock(caller: BoundQueue, path: Path, tmp_path: Path) -> None:
    caller.enqueue(ANY)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    other = Store(link, network=True, busy_timeout=0.05)
    assert bound(other).enqueue(ANY).job.id == 2
    with held(path, "write"), pytest.raises(StorageBusy):
        bound(other).enqueue(ANY)
    other.close()
    assert [each.name for each in tmp_path.iterdir()] == ["link.db"]


def test_python_before_3_12_is_refused_and_nothing_is_touched(
    caller: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 9))
    with pytest.raises(PythonTooOld, match=r"3\.12"):
        caller.list()
    assert content(path) == {}


# One lock, and nothing open without it.


def open_files(path: Path) -> list[str]:
    folder = Path("/proc/self/fd")
    # The listing's own descriptor is in the list and gone.
    names = [each.readlink() for each in folder.iterdir() if each.is_symlink()]
    return [name.name for name in names if str(name).startswith(str(path))]


def test_between_two_transactions_the_wal_alone_is_open(remote: Store, caller: BoundQueue, path: Path) -> None:
    caller.enqueue(ANY)
    assert open_files(path) == ["queue.db-wal"]
    remote.close()
    assert open_files(path) == []


def test_a_statement_that_is_still_in_use_keeps_no_file_open(remote: Store, caller: BoundQueue, path: Path) -> None:
    caller.enqueue_jobs([ANY] * 20)
    with remote._database.read() as connection:
        rows = connection.execute("SELECT id FROM jobs")
        next(rows)
    assert open_files(path) == ["queue.db-wal"]
    with pytest.raises(sqlite3.ProgrammingError):
        next(rows)


def test_a_reading_transaction_can_not_write(remote: Store, caller: BoundQueue) -> None:
    caller.enqueue(ANY)
    with pytest.raises(StorageError), remote._database.read() as connection:
        connection.execute("DELETE FROM jobs")
    assert caller.get(1).id == 1


def test_two_stores_of_one_process_take_turns_though_they_share_its_lock(path: Path, clock: SteppedClock) -> None:
    stores = [Store(path, network=True) for _ in range(4)]
    claimed: list[int] = []

    def work(store: Store) -> None:
        for _ in range(25):
            caller = Queue(store).bound(admin(), clock)
            caller.enqueue(ANY)
            claimed.append(claim(caller).id)

    threads = [threading.Thread(target=work, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == list(range(1, 101))
    assert is_sound(path)
    for store in stores:
        store.close()


def test_a_reader_that_may_have_lost_its_lock_is_not_believed(
    remote: Store, caller: BoundQueue, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = caller.enqueue(ANY).job
    with pytest.raises(StorageUnavailable, match="took so long"), remote._database.read():
        monkeypatch.setattr(network_file, "SURE", 0.0)
    assert_unlocked(path)
    with remote._database.write() as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone()[0] == 1
    monkeypatch.undo()
    assert caller.get(made.id) == made


def test_half_a_transaction_of_a_killed_process_is_not_read(caller: BoundQueue, path: Path) -> None:
    caller.list()
    add_jobs(path, 2_000)
    before = caller.list(limit=100)
    size = wal_size(path)
    with pytest.raises(AssertionError):
        run_python(SPILL_AND_DIE, str(path))
    assert wal_size(path) > size
    assert caller.list(limit=100) == before
    assert caller.enqueue(ANY).job.id == 2_001
    assert is_sound(path)


SPILL_AND_DIE = """
import os, signal, sys
from queuelog import Store
store = Store(sys.argv[1], network=True)
with store._database.write() as connection:
    connection.execute("PRAGMA cache_size = 5")
    connection.execute("UPDATE jobs SET error = printf('%*c', 900, 'x')")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_restored_backup_is_locked_in_the_place_of_the_old_file(
    remote: Store, caller: BoundQueue, path: Path, tmp_path: Path
) -> None:
    caller.enqueue(ANY)
    copy = path.with_name("copy.db")
    remote.back_up(copy)
    caller.enqueue(ANY)
    # The store is not closed, as in a function that was frozen meanwhile.
    kept = snapshots.put_in_place(copy, path)
    other = Store(path, network=True)
    assert len(bound(other).list().jobs) == 1
    with held(path, "write"), pytest.raises(StorageBusy):
        caller.enqueue(NewJob(type="pdf"))
    assert caller.enqueue(ANY).job.id == 2
    assert kept is not None
    assert len(query(kept, "SELECT * FROM jobs")) == 2
    other.close()


# The WAL, and what moves it into the file.


def test_a_writer_that_makes_the_wal_long_moves_it_into_the_file(caller: BoundQueue, path: Path) -> None:
    medium = NewJob(type="email", payload={"a": "x" * 8_000})
    sizes = [0]
    while True:
        caller.enqueue(medium)
        if wal_size(path) == 0:
            break
        sizes.append(wal_size(path))
        assert path.stat().st_size < 8_000
    made = len(sizes)
    step = max(after - before for before, after in pairwise(sizes))
    assert sizes[-1] < network_file.LONG_WAL < sizes[-1] + step
    assert path.stat().st_size > 8_000 * made
    assert len(caller.list(limit=100).jobs) == made
    assert is_sound(path)


def test_large_transactions_make_a_longer_wal_but_none_that_takes_two_reads(caller: BoundQueue, path: Path) -> None:
    sizes = [0]
    while len(sizes) == 1 or wal_size(path):
        caller.enqueue_jobs([NewJob(type="email", payload={"a": "x" * 1_000})] * 100)
        sizes.append(wal_size(path))
    longest = max(sizes)
    step = max(after - before for before, after in pairwise(sizes))
    assert 2 * network_file.LONG_WAL < longest < network_file.ONE_READ < longest + step


def test_what_is_rolled_back_is_not_moved_into_the_file(remote: Store, caller: BoundQueue, path: Path) -> None:
    caller.enqueue(ANY)
    before = path.read_bytes()
    with pytest.raises(RuntimeError), remote._database.write() as connection:
        connection.execute("PRAGMA cache_size = 5")
        connection.execute("UPDATE jobs SET payload = (SELECT '{\"a\": \"' || printf('%*c', 60000, 'x') || '\"}')")
        raise RuntimeError
    assert path.read_bytes() == before
    assert caller.get(1).payload == {}


READ_THE_FILE = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.lockf(held, fcntl.LOCK_SH | fcntl.LOCK_NB, 512, 0x40000000)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_backup(path: Path) -> Iterator[None]:
    """Somebody on another host is in the middle of copying the file."""
    process = start_python("-c", READ_THE_FILE, str(path), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield
    process.communicate()


def test_while_the_file_is_copied_writers_go_on_and_leave_it_as_it_is(caller: BoundQueue, path: Path) -> None:
    caller.enqueue(ANY)
    with another_backup(path):
        before = path.read_bytes()
        caller.enqueue_jobs([LARGE] * 12)
        assert wal_size(path) > network_file.LONG_WAL
        assert path.read_bytes() == before
    caller.enqueue(ANY)
    assert wal_size(path) == 0
    assert path.read_bytes() != before
    assert len(caller.list().jobs) == 14


ENQUEUE = """
import sys
from queuelog import NewJob, Principal, Queue, Role, Store
store = Store(sys.argv[1], network=True)
caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
for _ in range(int(sys.argv[2])):
    caller.enqueue(NewJob(type="email", payload={"a": "x" * 60_000}))
store.close()
"""


def test_a_backup_is_the_queue_at_one_moment_though_others_write_meanwhile(
    remote: Store, caller: BoundQueue, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.enqueue_jobs([ANY] * 3)
    remote._database.checkpoint()
    caller.enqueue_jobs([ANY] * 2)
    stock = shutil.copyfileobj

    def copy_slowly(source: BufferedReader, target: BufferedWriter, length: int) -> None:
        run_python(ENQUEUE, str(path), "12")
        stock(source, target, length)

    monkeypatch.setattr(shutil, "copyfileobj", copy_slowly)
    copy = tmp_path / "copy.db"
    remote.back_up(copy)
    assert query(copy, "SELECT id FROM jobs") == [(id,) for id in range(1, 6)]
    assert query(copy, "PRAGMA journal_mode") == [("delete",)]
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]
    assert len(caller.list().jobs) == 17
    assert_unlocked(path)


def test_a_backup_is_refused_if_the_file_changes_while_it_is_copied(
    remote: Store, caller: BoundQueue, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.enqueue(ANY)
    # As of a host that got the locks that this one has lost.
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: path.touch())
    with pytest.raises(StorageUnavailable, match="lost its lock"):
        remote.back_up(tmp_path / "copy.db")
    assert_unlocked(path)
    assert caller.enqueue(ANY).job.id == 2


# A copy to look at.


def snapshot(*arguments: object) -> tuple[int, str, str]:
    process = start_python("-m", "queuelog", "snapshot", *map(str, arguments), stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def test_a_snapshot_is_opened_by_any_sqlite(caller: BoundQueue, path: Path, tmp_path: Path) -> None:
    caller.enqueue_jobs([ANY] * 7)
    copy = tmp_path / "copy.db"
    assert snapshot(path, copy) == (0, f"{copy} holds 7 jobs.\n", "")
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (7,)
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]
    assert caller.enqueue(ANY).job.id == 8


def test_a_snapshot_of_a_local_queue_is_taken_while_it_is_used(path: Path, tmp_path: Path) -> None:
    store = Store(path, network=False)
    bound(store).enqueue(ANY)
    assert snapshot(path, tmp_path / "copy.db")[0] == 0
    store.close()


def test_a_shared_file_is_restored_from_and_restored_to_while_nobody_uses_it(
    caller: BoundQueue, path: Path, tmp_path: Path
) -> None:
    caller.enqueue(ANY)
    copy = tmp_path / "copy.db"
    snapshots.copy_file(path, copy)
    assert snapshots.check(copy) == 1
    with held(path, "read"), pytest.raises(StorageBusy):
        snapshots.require_unused(path)
    snapshots.require_unused(path)
    assert_unlocked(path)
    assert caller.get(1).id == 1


def test_a_snapshot_overwrites_nothing_and_leaves_nothing_half_done(
    caller: BoundQueue, path: Path, tmp_path: Path
) -> None:
    caller.enqueue(ANY)
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    code, _, errors = snapshot(path, copy)
    assert (code, errors) == (1, f"{copy} is there already: name another file.\n")
    assert copy.read_text() == "precious"
    code, _, errors = snapshot(copy, tmp_path / "other.db")
    assert code == 1
    assert "is not a queue" in errors
    code, _, errors = snapshot(tmp_path / "missing.db", tmp_path / "other.db")
    assert code == 1
    assert "missing.db was not copied" in errors
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]
