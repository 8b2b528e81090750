from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import (
    Beat,
    Ending,
    JobStatus,
    NewJob,
    NotADatabase,
    Order,
    Queue,
    SQLiteTooOld,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    Store,
    UnsafeJournalMode,
)
from queuelog.page import JobFilter
from tests.support import START, admin, assert_unlocked, claim, held, is_shared, query, run_python, unprivileged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuelog import BoundQueue

ANY = NewJob(type="email")
LARGE = NewJob(type="email", payload={"a": "x" * 60_000})

VERBS: dict[str, Callable[[BoundQueue], Any]] = {
    "attempts": lambda caller: caller.attempts(1),
    "cancel": lambda caller: caller.cancel(1),
    "claim": lambda caller: caller.claim(),
    "claim many": lambda caller: caller.claim_jobs(limit=5),
    "claim nothing": lambda caller: caller.claim(types=["no such type"]),
    "complete": lambda caller: caller.complete(1),
    "enqueue": lambda caller: caller.enqueue(ANY),
    "enqueue many": lambda caller: caller.enqueue_jobs([ANY, ANY]),
    "explain": lambda caller: caller.explain(1),
    "fail": lambda caller: caller.fail(1),
    "finish many": lambda caller: caller.finish_jobs([Ending(id=1, verb="complete"), Ending(id=9, verb="fail")]),
    "get": lambda caller: caller.get(1),
    "heartbeat": lambda caller: caller.heartbeat_jobs([Beat(id=1, lease_token="nobody's")]),
    "list": lambda caller: caller.list(limit=2),
    "list the queue": lambda caller: caller.list(limit=2, status=JobStatus.PENDING, order=Order.QUEUE),
    "release": lambda caller: caller.release(1),
    "replay": lambda caller: caller.enqueue(NewJob(type="email", idempotency_key="k")),
    "retry": lambda caller: caller.queue._store.retry([1], now=START),
    "retry none": lambda caller: caller.retry_jobs(status=JobStatus.FAILED),
    "stats": lambda caller: caller.stats(),
    "sweep nothing": lambda caller: caller.queue._store.sweep(now=START, may_go_on=lambda: True),
}
#: These read alone, so that they never wait for the write lock.
READERS = {
    "attempts",
    "explain",
    "get",
    "list",
    "list the queue",
    "retry none",
    "stats",
    "sweep nothing",
}


@pytest.fixture
def scene(as_admin: BoundQueue) -> BoundQueue:
    """A queue with a running job, whose id is 1, and nine pending ones; seen by an admin."""
    as_admin.enqueue(ANY)
    claim(as_admin)
    as_admin.enqueue(NewJob(type="email", idempotency_key="k"))
    for _ in range(8):
        as_admin.enqueue(ANY)
    return as_admin


@pytest.fixture
def local(path: Path) -> Iterator[Store]:
    store = Store(path, network=False, busy_timeout=0.05)
    yield store
    store.close()


@pytest.fixture
def remote(path: Path) -> Iterator[Store]:
    store = Store(path, network=True, busy_timeout=0.05)
    yield store
    store.close()


def bound(store: Store) -> BoundQueue:
    return Queue(store).bound(admin())


def is_sound(path: Path) -> bool:
    return query(path, "PRAGMA integrity_check") == [("ok",)]


def test_nothing_is_opened_before_the_first_verb(path: Path, store: Store) -> None:
    assert store.is_reachable()
    assert list(path.parent.iterdir()) == []
    store.close()
    assert list(path.parent.iterdir()) == []
    bound(store).list()
    assert path.is_file()


def test_a_closed_store_opens_again(scene: BoundQueue, store: Store) -> None:
    store.close()
    store.close()
    assert scene.get(1).id == 1
    assert scene.enqueue(ANY).job.id == 11


def test_what_was_committed_is_there_for_the_next_store(scene: BoundQueue, path: Path, network: bool) -> None:
    other = Store(path, network=network)
    assert bound(other).get(1) == scene.get(1)
    other.close()


def test_a_path_may_be_text(path: Path) -> None:
    store = Store(str(path))
    assert bound(store).enqueue(ANY).job.id == 1
    store.close()


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_leaves_a_lock(scene: BoundQueue, path: Path, verb: str) -> None:
    result = VERBS[verb](scene)
    assert_unlocked(path)
    assert is_sound(path)
    del result


@pytest.mark.parametrize("order", Order)
def test_a_list_that_breaks_off_leaves_no_lock(scene: BoundQueue, store: Store, path: Path, order: Order) -> None:
    class Broken(JobFilter):
        def passes(self, row: sqlite3.Row) -> bool:
            raise RuntimeError(f"at the job {row['id']}")

    # The exception is kept, and with it everything that its frames refer to.
    with pytest.raises(RuntimeError) as kept:
        store.page(Broken(visible_to=admin()), order=order, limit=5, after=None)
    assert_unlocked(path)
    assert scene.enqueue(ANY).job.id == 11
    del kept


def test_an_exception_in_a_transaction_rolls_it_back_and_leaves_no_lock(
    scene: BoundQueue, store: Store, path: Path
) -> None:
    before = scene.list()
    with pytest.raises(RuntimeError), store._database.write() as connection:
        connection.execute("DELETE FROM jobs")
        raise RuntimeError
    assert_unlocked(path)
    assert scene.list() == before


def test_a_value_that_sqlite_can_not_take_rolls_back_as_well(scene: BoundQueue, path: Path) -> None:
    for verb in (scene.get, scene.cancel):
        with pytest.raises(OverflowError):
            verb(2**63)
    assert_unlocked(path)


def test_a_broken_constraint_is_no_storage_error(scene: BoundQueue, store: Store, path: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError), store._database.write() as connection:
        connection.execute("UPDATE jobs SET type = 'pdf' WHERE id = 1")
        connection.execute("UPDATE jobs SET status = 'lost'")
    assert_unlocked(path)
    assert scene.get(1).type == "email"


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("as SQLite would raise it")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StorageBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StorageBusy),
        (sqlite3.SQLITE_LOCKED, StorageBusy),
        (sqlite3.SQLITE_CANTOPEN, StorageUnavailable),
        (sqlite3.SQLITE_FULL, StorageUnavailable),
        (sqlite3.SQLITE_IOERR, StorageUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, StorageUnavailable),
        (sqlite3.SQLITE_IOERR_LOCK, StorageUnavailable),
        (sqlite3.SQLITE_PROTOCOL, StorageUnavailable),
        (sqlite3.SQLITE_READONLY_ROLLBACK, StorageUnavailable),
        # The file is sound: it was the lock that was lost.
        (sqlite3.SQLITE_CORRUPT, StorageUnavailable),
        (sqlite3.SQLITE_CORRUPT_INDEX, StorageUnavailable),
        (sqlite3.SQLITE_NOTADB, NotADatabase),
    ],
)
def test_what_sqlite_reports_has_a_name_and_the_next_verb_works(
    scene: BoundQueue, store: Store, path: Path, code: int, expected: type[StorageError]
) -> None:
    before = scene.list()
    with pytest.raises(StorageError) as named, store._database.write() as connection:
        connection.execute("DELETE FROM jobs")
        raise sqlite_error(code)
    assert type(named.value) is expected
    assert_unlocked(path)
    assert scene.list() == before
    assert scene.enqueue(ANY).job.id == 11


def test_an_error_without_a_code_keeps_its_class(scene: BoundQueue, store: Store, path: Path) -> None:
    with pytest.raises(sqlite3.ProgrammingError), store._database.read() as connection:
        connection.execute("SELECT ?", [object()])
    assert_unlocked(path)


def test_a_local_file_is_in_wal(local: Store, path: Path) -> None:
    bound(local).enqueue(ANY)
    assert path.read_bytes()[18:20] == b"\x02\x02"
    assert path.with_name("queue.db-wal").stat().st_size > 0
    local.close()
    assert not path.with_name("queue.db-wal").exists()


def test_every_commit_is_synced_and_nothing_is_mapped(scene: BoundQueue, store: Store, network: bool) -> None:
    expected = {
        "journal_mode": "wal",
        "locking_mode": "exclusive" if network else "normal",
        "mmap_size": 0,
        "synchronous": 2,
        "temp_store": 2,
    }
    with store._database.read() as connection:
        found = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in expected}
    # An SQLite without memory mapping has no answer to mmap_size.
    assert {name: row[0] if row else 0 for name, row in found.items()} == expected


def test_a_reopened_store_syncs_as_before(scene: BoundQueue, store: Store, network: bool) -> None:
    store.close()
    test_every_commit_is_synced_and_nothing_is_mapped(scene, store, network)


def test_a_store_looks_at_the_file_system_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def is_network_file_system(path: Path) -> bool:
        looked_at.append(path)
        return True

    monkeypatch.setattr("queuelog.store.database.is_network_file_system", is_network_file_system)
    store = Store(path)
    assert looked_at == []
    bound(store).enqueue(ANY)
    store.close()
    bound(store).enqueue(ANY)
    assert looked_at == [path]
    store.close()
    assert is_shared(path)


def test_where_sqlite_can_not_do_wal_it_says_so() -> None:
    with pytest.raises(UnsafeJournalMode, match="memory"):
        bound(Store(":memory:", network=False)).list()


@pytest.mark.parametrize("verb", sorted({*VERBS} - READERS))
def test_a_writer_that_waits_too_long_is_told_so(scene: BoundQueue, path: Path, verb: str) -> None:
    before = scene.list()
    with held(path, "write"), pytest.raises(StorageBusy, match="Nothing was changed"):
        VERBS[verb](scene)
    assert scene.list() == before
    VERBS[verb](scene)


def test_readers_of_a_local_file_do_not_wait_for_a_writer(local: Store, path: Path) -> None:
    caller = bound(local)
    caller.enqueue(ANY)
    with held(path, "write"):
        for verb in READERS:
            VERBS[verb](caller)


def test_readers_of_a_shared_file_wait_for_a_writer_and_not_for_each_other(remote: Store, path: Path) -> None:
    caller = bound(remote)
    caller.enqueue(ANY)
    for verb in READERS:
        with held(path, "read"):
            VERBS[verb](caller)
        with held(path, "write"), pytest.raises(StorageBusy):
            VERBS[verb](caller)


def test_a_reader_that_stays_holds_up_writers_of_a_shared_file(remote: Store, path: Path) -> None:
    caller = bound(remote)
    caller.enqueue(ANY)
    with held(path, "read"), pytest.raises(StorageBusy):
        caller.enqueue(ANY)
    assert caller.enqueue(ANY).job.id == 2


def test_a_file_that_is_locked_when_it_is_opened_is_busy(local: Store, path: Path) -> None:
    caller = bound(local)
    caller.enqueue(ANY)
    local.close()
    query(path, "PRAGMA journal_mode = DELETE")
    with held(path, "exclude"), pytest.raises(StorageBusy):
        caller.list()
    assert len(caller.list().jobs) == 1


def test_turning_a_file_to_wal_waits_for_its_readers(path: Path) -> None:
    query(path, "PRAGMA user_version = 0")
    patient, hasty = Store(path, network=False), Store(path, network=False, busy_timeout=0.05)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sqlite_schema").fetchall()
        with pytest.raises(StorageBusy):
            bound(hasty).list()
        leaving = threading.Timer(0.1, reader.execute, ["COMMIT"])
        leaving.start()
        assert bound(patient).enqueue(ANY).job.id == 1
        leaving.join()
    patient.close()


def test_threads_take_turns(as_admin: BoundQueue) -> None:
    made: list[int] = []
    claimed: list[int] = []

    def work() -> None:
        for _ in range(20):
            made.append(as_admin.enqueue(ANY).job.id)
            claimed.append(claim(as_admin).id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted(claimed) == list(range(1, 161))


FORK = """
import os, sys
from queuelog import NewJob, Principal, Queue, Role, Store

store = Store(sys.argv[1], network=sys.argv[2] == "True")
caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
print(caller.enqueue(NewJob(type="email")).job.id, flush=True)
opened = store._database._file._connection
for _ in range(2):
    child = os.fork()
    if child == 0:
        try:
            print(caller.enqueue(NewJob(type="email")).job.id, flush=True)
            if opened is not None:
                assert store._database._file._connection is not opened
                assert opened.in_transaction is False
            if sys.argv[3] == "close":
                store.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    print(caller.enqueue(NewJob(type="email")).job.id, flush=True)
assert store._database._file._connection is opened
store.close()
"""


@pytest.mark.parametrize("ending", ["close", "leave"])
def test_a_forked_child_opens_its_own_connection(path: Path, network: bool, ending: str) -> None:
    assert run_python(FORK, str(path), str(network), ending).split() == ["1", "2", "3", "4", "5"]
    assert is_sound(path)


FORK_AND_CLOSE = """
import gc, os, sys
from queuelog import NewJob, Principal, Queue, Role, Store

store = Store(sys.argv[1], network=sys.argv[2] == "True")
caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
caller.enqueue(NewJob(type="email"))
child = os.fork()
if child == 0:
    store.close()
    gc.collect()
    folder = "/proc/self/fd"
    # The listing's own descriptor is in the list and gone.
    files = [os.readlink(f"{folder}/{each}") for each in os.listdir(folder) if os.path.lexists(f"{folder}/{each}")]
    print(*files, flush=True)
    os._exit(0)
os.waitpid(child, 0)
store.close()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see which files are open")
def test_a_forked_child_does_not_close_its_parent_s_connection(path: Path) -> None:
    assert str(path) in run_python(FORK_AND_CLOSE, str(path), "False").split()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users can get at, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path
        path.chmod(0o777)


def test_a_file_that_may_not_be_written_is_unavailable_until_it_may(shared: Path, network: bool) -> None:
    path = shared / "queue.db"
    store = Store(path, network=network)
    bound(store).enqueue(ANY)
    store.close()
    path.chmod(0o444)
    with unprivileged(), pytest.raises(StorageUnavailable):
        bound(store).enqueue(ANY)
    # What SQLite makes beside a file has the file's own permissions.
    for each in shared.iterdir():
        if not each.is_symlink():
            each.chmod(0o666)
    assert bound(store).enqueue(ANY).job.id == 2
    store.close()


def test_a_file_that_may_not_be_read_is_unavailable_until_it_may(shared: Path, network: bool) -> None:
    path = shared / "queue.db"
    store = Store(path, network=network)
    bound(store).enqueue(ANY)
    store.close()
    path.chmod(0)
    with unprivileged(), pytest.raises(StorageUnavailable, match="can't be opened"):
        bound(store).list()
    path.chmod(0o666)
    assert len(bound(store).list().jobs) == 1
    store.close()


def test_a_directory_that_may_not_be_written_is_unavailable_until_it_may(shared: Path, network: bool) -> None:
    store = Store(shared / "queue.db", network=network)
    shared.chmod(0o555)
    with unprivileged(), pytest.raises(StorageUnavailable, match="its directory must exist and be writable"):
        bound(store).enqueue(ANY)
    shared.chmod(0o777)
    with unprivileged():
        assert bound(store).enqueue(ANY).job.id == 1
        store.close()


def test_a_directory_that_is_missing_is_unavailable_until_it_is_there(tmp_path: Path, network: bool) -> None:
    store = Store(tmp_path / "later" / "queue.db", network=network)
    assert not store.is_reachable()
    with pytest.raises(StorageUnavailable, match="its directory must exist"):
        bound(store).list()
    (tmp_path / "later").mkdir()
    assert bound(store).enqueue(ANY).job.id == 1
    store.close()


def test_a_directory_in_the_file_s_place_is_unavailable(tmp_path: Path, network: bool) -> None:
    store = Store(tmp_path, network=network)
    with pytest.raises(StorageUnavailable):
        bound(store).list()
    assert not store.is_reachable()


def test_a_full_file_is_unavailable_and_the_next_verb_works(local: Store, path: Path) -> None:
    scene = bound(local)
    with local._database.write() as connection:
        connection.execute("PRAGMA max_page_count = 20")
    made = 0
    with pytest.raises(StorageUnavailable, match="full"):
        while made < 100:
            scene.enqueue(LARGE)
            made += 1
    assert_unlocked(path)
    assert len(scene.list().jobs) == made
    # The same connection: opening another one needs room.
    with local._database.write() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert scene.enqueue(LARGE).job.id == made + 1
    assert is_sound(path)


FULL = """
import resource, sys
from queuelog import NewJob, Principal, Queue, Role, StorageUnavailable, Store

store = Store(sys.argv[1], network=sys.argv[2] == "True")
caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
large = NewJob(type="email", payload={"a": "x" * 60_000})
made = [caller.enqueue(large).job.id]
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, most))
refused = 0
for _ in range(100):
    try:
        made.append(caller.enqueue(large).job.id)
    except StorageUnavailable:
        refused += 1
        assert caller.get(made[-1]).id == made[-1]
        if refused == 3:
            break
assert refused == 3
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
made.append(caller.enqueue(large).job.id)
store.close()
print(*made)
"""


def test_a_file_that_the_system_does_not_let_grow_is_unavailable_and_the_next_verb_works(
    path: Path, network: bool
) -> None:
    made = [int(id) for id in run_python(FULL, str(path), str(network)).split()]
    assert made == list(range(1, len(made) + 1))
    assert query(path, "SELECT id FROM jobs") == [(id,) for id in made]
    assert is_sound(path)


def test_sqlite_before_3_40_is_refused(path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 39, 5))
    with pytest.raises(SQLiteTooOld, match=r"3\.40 or newer"):
        bound(store).list()
    assert not path.exists()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 0))
    assert bound(store).list().jobs == ()


LOOK = """
import sys
from queuelog import Store

events = []
store = Store(sys.argv[1])
sys.addaudithook(lambda event, arguments: events.append(event))
print(store.is_reachable(), len([each for each in events if each.startswith(("open", "sqlite3", "fcntl"))]))
"""


def test_reachable_is_found_out_by_stat_alone(scene: BoundQueue, path: Path) -> None:
    assert run_python(LOOK, str(path)).split() == ["True", "0"]


def test_a_locked_or_broken_file_is_reachable(scene: BoundQueue, store: Store, path: Path) -> None:
    with held(path, "write"):
        assert store.is_reachable()
    store.close()
    path.write_bytes(b"not a database")
    assert store.is_reachable()


def test_a_pipe_or_a_directory_in_the_file_s_place_is_not_reachable(path: Path, store: Store) -> None:
    os.mkfifo(path)
    assert not store.is_reachable()
    path.unlink()
    path.mkdir()
    assert not store.is_reachable()


def test_a_directory_that_may_not_be_entered_is_not_reachable(shared: Path) -> None:
    (shared / "inner").mkdir(mode=0)
    store = Store(shared / "inner" / "deeper" / "queue.db")
    with unprivileged():
        assert not store.is_reachable()


def test_a_killed_writer_s_wal_is_read_by_the_next_one(local: Store, path: Path) -> None:
    bound(local).enqueue(ANY)
    copy = path.with_name("crashed.db")
    # What a killed process leaves behind: the file and its WAL, without a last checkpoint.
    copy.write_bytes(path.read_bytes())
    copy.with_name("crashed.db-wal").write_bytes(path.with_name("queue.db-wal").read_bytes())
    recovered = Store(copy, network=False)
    assert len(bound(recovered).list().jobs) == 1
    recovered.close()
