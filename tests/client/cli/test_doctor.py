"""`queuelog doctor` on sound queues, and on each way of being broken."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import NewJob, Queue, Store, SystemClock
from queuelog.store import examination, snapshots
from queuelog_client import JobPriority, JobStatus, QueueClient
from queuelog_client import NewJob as Job
from queuelog_client.cli.registries import create
from tests import first_release
from tests.client.cli.support import leave_a_log, queuelog
from tests.client.support import Sent, Stack, Told, Wire, problem
from tests.support import START, SteppedClock, admin, directory_in_memory, held, query, start_python, unprivileged

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVELS = ["ok", "warning", "fault"]


class Report(dict[str, tuple[str, str]]):
    """What a doctor found worst by each check: its level and what was said."""

    code: int

    def bad(self) -> dict[str, str]:
        """Return the level of each check that isn't well."""
        return {check: level for check, (level, _) in self.items() if level != "ok"}


def examine(*arguments: object, now: Any = lambda: START, **world: Any) -> Report:
    ran = queuelog("doctor", *arguments, "--json", now=now, **world)
    assert ran.err == ""
    said = json.loads(ran.out)
    report = Report()
    for each in said["findings"]:
        assert (each["advice"] is None) == (each["level"] == "ok")
        found = (each["level"], f"{each['what']} {each['advice'] or ''}")
        if LEVELS.index(found[0]) >= LEVELS.index(report.get(each["check"], ("ok", ""))[0]):
            report[each["check"]] = found
    levels = [level for level, _ in report.values()]
    assert said["level"] == max(levels, key=LEVELS.index)
    report.code = ran.code
    assert report.code == (said["level"] == "fault")
    return report


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """The data of a local queue with three jobs, which nobody has open, where any user may look."""
    with directory_in_memory() as folder:
        path = Path(folder) / "data"
        path.mkdir()
        Path(folder).chmod(0o755)
        fill(path / "queue.db", network=False)
        create(path / "principals.json", "billing", ["producer"])
        yield path


def fill(path: Path, *, network: bool, jobs: int = 3) -> None:
    store = Store(path, network=network)
    caller = Queue(store).bound(admin(), SteppedClock())
    for _ in range(jobs):
        caller.enqueue(NewJob(type="email", payload={"text": "x" * 1_000}))
    store.close()


@pytest.fixture
def disk(data_dir: Path, tmp_path: Path) -> Path:
    """A list of mounts by which the data is on an ordinary disk."""
    return mounted(tmp_path, "ext4 /dev/sda1 rw")


def mounted(folder: Path, how: str) -> Path:
    mounts = folder / "mountinfo"
    mounts.write_text(f"21 1 8:1 / / rw,relatime shared:1 - {how}\n")
    return mounts


def everything_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.is_symlink()}


def test_a_sound_queue_is_said_to_be_one_and_left_as_it_is(data_dir: Path, disk: Path) -> None:
    before = everything_in(data_dir)
    ran = queuelog("doctor", f"--data-dir={data_dir}", mounts=disk)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[-1] == f"Faults: 0, warnings: 0, of {len(lines) - 2} findings."
    assert all(line.startswith("ok      · ") for line in lines[:-2])
    after = everything_in(data_dir)
    # A look at a file in WAL mode leaves its companions, empty of changes.
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {"queue.db-shm", "queue.db-wal"}
    assert after.get("queue.db-wal", b"") == b""


def test_every_check_has_a_name(data_dir: Path, disk: Path) -> None:
    assert set(examine(f"--data-dir={data_dir}", mounts=disk)) == {
        *("sqlite", "file-system", "locks", "space", "permissions", "journal", "wal", "integrity", "schema", "clock"),
        *("registry", "privacy"),
    }


def test_a_file_that_hosts_share_is_sound_on_nfs_and_stays_shared(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    fill(path, network=True)
    report = examine(f"--file={path}", mounts=mounted(tmp_path, "nfs4 fs-1:/ rw,vers=4.1,local_lock=none"))
    assert report.bad() == {}
    assert "one that hosts share" in report["journal"][1]
    fill(path, network=True)
    assert query(path, "SELECT count(*) FROM jobs") == [(6,)]


@pytest.mark.parametrize(
    ("how", "bad", "said"),
    [
        ("nfs4 fs-1:/ rw,local_lock=none", {"journal": "fault"}, "not safe on a network file system"),
        ("nfs fs-1:/ rw,nolock", {"file-system": "fault", "journal": "fault"}, "mounted with nolock"),
        ("cifs //nas/queue rw", {"file-system": "warning", "journal": "fault"}, "never tried on it"),
        ("fuse.sshfs nas:/ rw", {"file-system": "warning", "journal": "fault"}, "never tried on it"),
        ("tmpfs tmpfs rw", {"file-system": "warning"}, "gone with the machine's memory"),
    ],
)
def test_a_file_system_that_is_not_sound_for_the_file_is_pointed_out(
    data_dir: Path, tmp_path: Path, how: str, bad: dict[str, str], said: str
) -> None:
    report = examine(f"--data-dir={data_dir}", mounts=mounted(tmp_path, how))
    assert report.bad() == bad
    assert any(said in what for _, what in report.values())


def test_an_unknown_file_system_is_a_warning(data_dir: Path, tmp_path: Path) -> None:
    assert examine(f"--data-dir={data_dir}", mounts=tmp_path / "none").bad() == {"file-system": "warning"}


def test_a_restored_file_is_not_yet_one_that_hosts_share(data_dir: Path, tmp_path: Path) -> None:
    query(data_dir / "queue.db", "PRAGMA journal_mode = DELETE")
    nfs = mounted(tmp_path, "nfs4 fs-1:/ rw,local_lock=none")
    assert examine(f"--data-dir={data_dir}", mounts=nfs).bad() == {"journal": "warning"}


def test_locks_that_keep_nobody_out_are_a_fault(data_dir: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a file system whose locks stay within a host: this one says yes, and the other process is let in.
    monkeypatch.setattr(examination, "try_lock", lambda *_, **__: True)
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"locks": "fault"}


def test_a_full_file_system_is_a_fault_before_it_is_one(
    data_dir: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(data_dir)
    for free, level in ((100, "warning"), (10, "fault")):
        fields = list(real)
        fields[4] = free * 1024 * 1024 // real.f_frsize
        monkeypatch.setattr(os, "statvfs", lambda _, fields=fields: os.statvfs_result(fields))
        report = examine(f"--data-dir={data_dir}", mounts=disk)
        assert report["space"][0] == level
        # There is no room for a copy either.
        assert report["integrity"][0] == "warning"


def test_a_damaged_page_is_found(data_dir: Path, disk: Path) -> None:
    path = data_dir / "queue.db"
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    report = examine(f"--data-dir={data_dir}", mounts=disk)
    assert report.bad() == {"integrity": "fault"}
    assert "queuelog restore" in report["integrity"][1]


@pytest.mark.parametrize("content", [b"no such thing" * 1_000, b"SQLite format 3\0" + b"\x01" * 20])
def test_what_is_no_database_is_found(data_dir: Path, disk: Path, content: bytes) -> None:
    (data_dir / "queue.db").write_bytes(content)
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"journal": "fault"}


def test_another_application_s_database_is_found(data_dir: Path, disk: Path) -> None:
    query(data_dir / "queue.db", "PRAGMA application_id = 7")
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"integrity": "fault"}


def test_a_log_that_was_cut_is_found_and_nothing_that_shows_it_is_touched(data_dir: Path, disk: Path) -> None:
    path = data_dir / "queue.db"
    leave_a_log(path)
    whole = examine(f"--data-dir={data_dir}", mounts=disk, now=lambda: datetime.now(UTC))
    assert whole.bad() == {}
    log = data_dir / "queue.db-wal"
    os.truncate(log, log.stat().st_size // 2)
    before = everything_in(data_dir)
    for _ in range(2):
        report = examine(f"--data-dir={data_dir}", mounts=disk)
        assert report.bad() == {"wal": "fault", "integrity": "warning"}
        assert "acknowledged changes are lost" in report["wal"][1]
        assert everything_in(data_dir) == before
    os.truncate(log, 0)
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"wal": "fault", "integrity": "warning"}


def test_a_log_whose_pages_are_all_in_the_file_may_be_cut(data_dir: Path, disk: Path) -> None:
    path = data_dir / "queue.db"
    code = (
        "import os, sqlite3, sys\n"
        "caller = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "caller.execute('CREATE TABLE other (name)')\n"
        "caller.execute('PRAGMA wal_checkpoint(PASSIVE)').fetchall()\n"
        "os._exit(0)"
    )
    start_python("-c", code, str(path)).communicate(timeout=60)
    os.truncate(data_dir / "queue.db-wal", 5_000)
    assert "wal" not in {
        c for c, level in examine(f"--data-dir={data_dir}", mounts=disk).bad().items() if level == "fault"
    }


def test_a_log_that_is_none_or_ends_too_early_is_found(data_dir: Path, disk: Path) -> None:
    path, log = data_dir / "queue.db", data_dir / "queue.db-wal"
    leave_a_log(path)
    (data_dir / "queue.db-shm").unlink()
    with log.open("ab") as file:
        file.write(b"half a page")
    assert examine(f"--data-dir={data_dir}", mounts=disk, now=lambda: datetime.now(UTC)).bad() == {"wal": "warning"}
    log.write_bytes(b"no log" * 100)
    (data_dir / "queue.db-shm").unlink()
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"wal": "fault", "integrity": "warning"}


def test_a_log_that_never_shrinks_is_found(data_dir: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuelog_client.cli.doctor.file_checks.LONG_WAL", 10_000)
    leave_a_log(data_dir / "queue.db")
    report = examine(f"--data-dir={data_dir}", mounts=disk, now=lambda: datetime.now(UTC))
    assert report.bad() == {"wal": "warning"}
    assert "never ends" in report["wal"][1]


def test_a_transaction_that_is_half_done_is_left_to_whoever_comes_next(data_dir: Path, disk: Path) -> None:
    path = data_dir / "queue.db"
    query(path, "PRAGMA journal_mode = DELETE")
    code = (
        "import os, sqlite3, sys\n"
        "caller = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "caller.execute('PRAGMA cache_size = 1')\n"
        "caller.execute('BEGIN IMMEDIATE')\n"
        "caller.execute('CREATE TABLE other (name)')\n"
        "caller.execute('INSERT INTO other VALUES (zeroblob(1000000))')\n"
        "os._exit(0)"
    )
    start_python("-c", code, str(path)).communicate(timeout=60)
    before = everything_in(data_dir)
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"integrity": "warning"}
    assert everything_in(data_dir) == before
    assert query(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'other'") == [(0,)]
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {}


def test_a_newer_major_release_s_file_is_found_and_an_older_one_s_is_no_fault(data_dir: Path, disk: Path) -> None:
    query(data_dir / "queue.db", "PRAGMA user_version = 2000")
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"schema": "fault"}
    (data_dir / "queue.db").unlink()
    first_release.make_file(data_dir / "queue.db")
    report = examine(f"--data-dir={data_dir}", mounts=disk)
    assert report.bad() == {"schema": "warning"}
    assert "The schema is 1.0; 1.2 is to come." in report["schema"][1]


def test_a_file_that_this_user_may_not_write_is_found(data_dir: Path, disk: Path) -> None:
    (data_dir / "queue.db").chmod(0o444)
    (data_dir / "principals.json").chmod(0o444)
    data_dir.chmod(0o555)
    with unprivileged():
        report = examine(f"--data-dir={data_dir}", mounts=disk)
    assert report["permissions"][0] == report["locks"][0] == "fault"
    assert "can't be written by user" in report["permissions"][1]
    assert report["privacy"][0] == "warning"


def test_files_that_this_user_may_not_read_are_found(data_dir: Path, disk: Path) -> None:
    (data_dir / "queue.db").chmod(0)
    (data_dir / "principals.json").chmod(0)
    with unprivileged():
        report = examine(f"--data-dir={data_dir}", mounts=disk)
    assert report["permissions"][0] == report["journal"][0] == report["registry"][0] == "fault"
    assert "Permission denied" in report["journal"][1]


def test_a_queue_is_looked_at_while_others_write_it(data_dir: Path, disk: Path) -> None:
    with held(data_dir / "queue.db", "write"):
        report = examine(f"--data-dir={data_dir}", mounts=disk)
    assert report.bad() == {}
    assert "3 jobs" in report["integrity"][1]


def test_what_everyone_may_write_is_pointed_out(data_dir: Path, disk: Path) -> None:
    for name in ("queue.db", "principals.json"):
        (data_dir / name).chmod(0o666)
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"permissions": "warning", "privacy": "fault"}


def test_clocks_and_a_sweep_that_stand_still_are_found(data_dir: Path, disk: Path) -> None:
    early = examine(f"--data-dir={data_dir}", mounts=disk, now=lambda: START - timedelta(hours=1))
    assert early.bad() == {"clock": "fault"}
    assert "3,600 s from now" in early["clock"][1]
    store = Store(data_dir / "queue.db", network=False)
    Queue(store).bound(admin(), SteppedClock()).claim_jobs(limit=2, lease_seconds=60)
    store.close()
    late = examine(f"--data-dir={data_dir}", mounts=disk, now=lambda: START + timedelta(minutes=12))
    assert late.bad() == {"sweep": "warning"}
    assert "2 leases ended" in late["sweep"][1]


def test_registries_that_let_nobody_in_or_soon_will_not_are_found(data_dir: Path, disk: Path) -> None:
    path = data_dir / "principals.json"
    create(path, "nightly", ["worker"], expires_at=START + timedelta(days=7))
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"registry": "warning"}
    create(path, "nightly", ["worker"])
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {}
    path.write_text('{"principals": [7]}')
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"registry": "fault"}
    path.unlink()
    assert examine(f"--data-dir={data_dir}", mounts=disk).bad() == {"registry": "warning"}


def test_a_queue_that_is_not_there_is_found(data_dir: Path, disk: Path) -> None:
    for path in (data_dir / "none.db", data_dir / "none/queue.db"):
        report = examine(f"--file={path}", mounts=disk)
        assert report.bad() == {"file": "fault"}
    assert not (data_dir / "none.db").exists()


def test_an_empty_file_is_as_good_as_new(data_dir: Path, disk: Path) -> None:
    shutil.rmtree(data_dir)
    data_dir.mkdir()
    (data_dir / "queue.db").touch()
    report = examine(f"--file={data_dir / 'queue.db'}", mounts=disk)
    assert report.bad() == {"schema": "warning"}


def test_a_file_that_another_process_keeps_locked_is_looked_at_another_time(
    data_dir: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "BUSY_TIMEOUT", 0.1)
    path = data_dir / "shared.db"
    fill(path, network=True)
    with held(path, "write"):
        report = examine(f"--file={path}", mounts=disk)
    assert report.bad() == {"integrity": "warning"}
    assert "quiet moment" in report["integrity"][1]


def test_one_queue_is_named(tmp_path: Path) -> None:
    ran = queuelog("doctor", f"--file={tmp_path}", f"--data-dir={tmp_path}")
    assert (ran.code, ran.sentence) == (2, "Error: --file and --data-dir name two queues: give one.")


# The API.


@pytest.fixture
def api(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A queue that keeps the machine's time, for HTTP's Date does too; the command line comes as its admin."""
    stack.api._functions._clock = SystemClock()
    monkeypatch.setenv("QUEUELOG_URL", stack.api.url)
    monkeypatch.setenv("QUEUELOG_API_KEY", stack.api.keys["admin"])
    return stack


def call(*arguments: object) -> Report:
    return examine(*arguments, now=lambda: datetime.now(UTC))


def test_a_sound_api_is_said_to_be_one_and_nothing_is_changed(api: Stack) -> None:
    api.producer.enqueue(Job(type="email"))
    before = api.admin.list()
    report = call()
    assert report.bad() == {}
    assert set(report) == {"tls", "reachable", "clock", "authoriser", "key", "reads"}
    assert "producer, worker, admin" in report["key"][1]
    assert api.admin.list() == before


@pytest.mark.parametrize("role", ["producer", "worker"])
def test_a_key_s_roles_are_told(api: Stack, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    monkeypatch.setenv("QUEUELOG_API_KEY", api.api.keys[role])
    assert call()["key"][1] == f"The caller is let in, and may do what is for: {role}. "


def test_a_wrong_key_is_found(api: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_API_KEY", "ql_abcdefgh_" + "x" * 43)
    assert call().bad() == {"key": "fault"}


def test_a_server_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(None) as gone:
        monkeypatch.setenv("QUEUELOG_API_KEY", "ql_key")
    report = call(f"--url={gone.url}")
    assert report.bad() == {"reachable": "fault"}
    assert gone.url in report["reachable"][1]


def test_what_the_queue_says_reaches_no_terminal_raw(api: Stack, wire: Wire) -> None:
    wire.plan.extend([None] * 4 + [Told(500, {**problem(500, "internal-error"), "detail": "\x1b[31mred"})])
    ran = queuelog("doctor", f"--url={wire.url}", now=lambda: datetime.now(UTC))
    assert "\\x1b[31mred" in ran.out
    assert ran.out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("told", "check"),
    [
        (Told(404, b"<html>"), "address"),
        (Told(200, b"<html>"), "address"),
        (Told(503, problem(503, "storage-unavailable")), "reachable"),
        (Told(500, problem(500, "internal-error")), "reachable"),
    ],
)
def test_what_is_no_queue_or_none_that_works_is_found(api: Stack, wire: Wire, told: Told, check: str) -> None:
    date = {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
    wire.plan.append(Told(told.status, told.body, date))
    assert call(f"--url={wire.url}").bad() == {check: "fault"}
    # What is no queue gets no key.
    assert len(wire.sent) == 1 or check == "reachable"
    assert "X-Api-Key" not in wire.sent[0].headers


@pytest.mark.parametrize(("seconds", "level"), [(3600, "fault"), (-3600, "fault"), (20, "warning"), (-20, "warning")])
def test_clocks_that_are_apart_are_found(api: Stack, wire: Wire, seconds: int, level: str) -> None:
    date = datetime.now(UTC) + timedelta(seconds=seconds)
    wire.plan.append(Told(200, {"status": "ok"}, {"Date": format_datetime(date, usegmt=True)}))
    report = call(f"--url={wire.url}")
    assert report.bad() == {"clock": level}
    assert ("ahead of" if seconds > 0 else "behind") in report["clock"][1]


def test_a_server_that_does_not_tell_the_time_is_a_warning(api: Stack, wire: Wire) -> None:
    wire.plan.append(Told(200, {"status": "ok"}))
    assert call(f"--url={wire.url}").bad() == {"clock": "warning"}


def test_clocks_of_functions_that_are_apart_are_found(api: Stack) -> None:
    # HTTP's Date comes from another clock.
    api.api._functions._clock = SteppedClock(datetime.now(UTC) - timedelta(seconds=3600))
    report = call("--verbs=sync")
    assert report.bad() == {"functions-clock": "fault"}
    assert "The functions' clock is 3,60" in report["functions-clock"][1]


def test_a_certificate_that_nobody_vouches_for_is_found(impostor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_API_KEY", "ql_key")
    report = call(f"--url={impostor}")
    assert report.bad() == {"reachable": "fault"}
    assert "certificate is not valid" in report["reachable"][1]


def test_an_api_that_lets_everyone_in_is_found(api: Stack, wire: Wire) -> None:
    date = {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
    wire.plan.extend([Told(200, {"status": "ok"}, date), *[Told(200, {"jobs": [], "next_cursor": None})] * 3])
    report = call(f"--url={wire.url}")
    assert report.bad() == {"authoriser": "fault"}
    assert "everyone can come in" in report["authoriser"][1]


def test_an_authoriser_that_fails_is_found(api: Stack, wire: Wire) -> None:
    wire.plan.extend([None, Told(500, problem(500, "internal-error"))])
    assert call(f"--url={wire.url}").bad() == {"authoriser": "fault"}


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_answers_that_get_lost_are_faults_and_not_repeated(api: Stack, wire: Wire, lost: int) -> None:
    wire.plan.extend([None] * lost + ["lose the request"])
    assert call(f"--url={wire.url}").bad() == {"reachable" if lost < 4 else "reads": "fault"}
    assert len(wire.sent) == lost + 1


def test_every_verb_is_tried_with_jobs_that_end(api: Stack) -> None:
    report = call("--verbs=sync")
    assert report.bad() == {}
    assert report["verbs"][1] == (
        "Every verb does what it should: enqueue, get, list, explain, cancel, retry, claim, heartbeat, release, fail, "
        "attempts, retry_jobs, complete, enqueue_jobs, claim_jobs, heartbeat_jobs, finish_jobs. "
    )
    assert [job.status for job in api.admin.iterate()] == [JobStatus.COMPLETED] * 2


def test_no_verb_is_tried_with_a_type_that_is_of_no_use_or_without_an_admin_s_key(
    api: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.producer.enqueue(Job(type="sync", delay_seconds=3600))
    report = call("--verbs=sync")
    assert report.bad() == {"verbs": "fault"}
    assert "the type sync is in use, by 1 job." in report["verbs"][1]
    refused = call("--verbs=fax")
    assert refused["verbs"] == (
        "fault",
        "enqueue was refused: type must be one of email, pdf, sync. Choose a type that this queue takes.",
    )
    monkeypatch.setenv("QUEUELOG_API_KEY", api.api.keys["worker"])
    assert call("--verbs=pdf").bad() == {"verbs": "fault"}
    assert len(list(api.admin.iterate())) == 1


class Crossed(Wire):
    """Something happens right before the first claim is passed on."""

    def __init__(self, target: str, act: Any) -> None:
        super().__init__(target)
        self._act = act

    def answer(self, sent: Sent) -> Told | None:
        act, self._act = (None, self._act) if sent.path != "/jobs/claim" else (self._act, None)
        if act:
            act()
        return super().answer(sent)


def test_a_test_job_that_a_worker_takes_is_called_off(api: Stack) -> None:
    with Crossed(api.api.url, api.worker.claim) as wire:
        report = call("--verbs=sync", f"--url={wire.url}")
    assert report.bad() == {"verbs": "fault"}
    assert "worker has the job" in report["verbs"][1]
    (job,) = api.admin.iterate()
    assert (job.status, job.cancel_requested) == (JobStatus.RUNNING, True)


def test_somebody_s_job_that_is_claimed_is_given_back_at_once(api: Stack) -> None:
    def enqueue() -> None:
        api.admin.enqueue(Job(type="sync", priority=JobPriority.CRITICAL))

    with Crossed(api.api.url, enqueue) as wire:
        report = call("--verbs=sync", f"--url={wire.url}")
    assert report.bad() == {"verbs": "fault"}
    assert "given back at once" in report["verbs"][1]
    theirs, ours = api.admin.iterate()
    assert (theirs.status, theirs.retry_count) == (JobStatus.PENDING, 0)
    assert ours.status is JobStatus.CANCELLED


def test_a_verb_that_does_not_work_is_named_and_the_jobs_are_called_off(api: Stack) -> None:
    class Broken(Wire):
        def answer(self, sent: Sent) -> Told | None:
            if sent.path.endswith("/heartbeat"):
                return Told(500, problem(500, "internal-error"))
            return super().answer(sent)

    with Broken(api.api.url) as wire:
        report = call("--verbs=sync", f"--url={wire.url}")
    assert report.bad() == {"verbs": "fault"}
    assert report["verbs"][1].startswith("heartbeat went wrong: A detail.")
    assert [job.status for job in api.admin.iterate()] == [JobStatus.CANCELLED]


def test_a_file_and_an_api_are_looked_at_in_one_go(data_dir: Path, disk: Path, api: Stack) -> None:
    report = examine(f"--data-dir={data_dir}", f"--url={api.api.url}", mounts=disk, now=lambda: datetime.now(UTC))
    assert {"integrity", "registry", "authoriser"} <= set(report)


def test_its_address_is_a_client_s(alone: Wire) -> None:
    assert QueueClient(f"{alone.url}/iam", api_key="ql_key").url == alone.url
