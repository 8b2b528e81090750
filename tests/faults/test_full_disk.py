"""A file system without room, at each moment at which it can run out."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from queuelog import NewJob, Queue, StorageUnavailable, Store
from tests.faults.kernel import full, never_synced, refusing
from tests.faults.support import ANY, LARGE, Site
from tests.support import PYTHONPATH, ROOT, admin

if TYPE_CHECKING:
    from pathlib import Path
FULL = "The file system is full"
#: Where a file is opened, SQLite doesn't always tell a full file system from a broken one.
FULL_OR_BROKEN = f"{FULL}|The file system failed"
BYTES = 60_000


def test_what_must_write_is_refused_and_what_reads_is_not(site: Site) -> None:
    with refusing(full()) as there:
        for look in site.looks().values():
            assert there(look).status in {200, 204}
        site.assert_raises(StorageUnavailable, lambda: there(lambda: site.enqueue(ANY)), FULL)
        for change in site.changes().values():
            site.assert_refused(there(change), 503, "storage-unavailable", FULL_OR_BROKEN)
        # What was refused has not taken the file from those who only look.
        for look in site.looks().values():
            assert there(look).status in {200, 204}
    site.assert_nothing_lost()


def test_a_sandbox_that_starts_on_a_full_disk_works_once_there_is_room(site: Site) -> None:
    site.store.close()
    with refusing(full()) as there:
        site.assert_raises(StorageUnavailable, lambda: there(lambda: site.enqueue(ANY)), FULL_OR_BROKEN)
        site.assert_refused(there(site.api.enqueue), 503, "storage-unavailable", FULL_OR_BROKEN)
    site.assert_nothing_lost()


def test_a_file_that_can_not_be_made_is_made_once_there_is_room(network: bool, tmp_path: Path) -> None:
    store = Store(tmp_path / "new.db", network=network)
    caller = Queue(store).bound(admin())
    with refusing(full()) as there:
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match=FULL_OR_BROKEN):
                there(lambda: caller.enqueue(ANY))
    assert caller.enqueue(ANY).job.id == 1
    store.close()


@pytest.mark.parametrize(
    ("count", "beyond"),
    [(20, 10 * BYTES), (60, 10 * BYTES), (60, 50 * BYTES)],
    ids=["at its commit", "before its commit", "later"],
)
def test_a_batch_for_which_the_room_runs_out_is_not_there_at_all(site: Site, count: int, beyond: int) -> None:
    # Sixty of these are more than SQLite keeps in memory, so that it begins to write before the commit.
    batch = [LARGE] * count
    with refusing(full(beyond)) as there:
        site.assert_raises(StorageUnavailable, lambda: there(lambda: site.enqueue(*batch)), FULL)
        jobs = [{"type": "email", "payload": LARGE.payload}] * count
        answer = there(lambda: site.api.enqueue_jobs(jobs))
        site.assert_refused(answer, 503, "storage-unavailable", FULL_OR_BROKEN)
    site.assert_nothing_lost()


def test_a_checkpoint_without_room_loses_nothing_of_what_it_was_to_move(site: Site) -> None:
    # So large that no WAL grows up to there: only the file itself has no room.
    for _ in range(2):
        site.enqueue(*[LARGE] * 60)
    size = len(site.settle())
    assert size > 120 * BYTES
    with refusing(full(size)) as there:
        for _ in range(9):
            # One that would first have to make the checkpoint may be refused.
            with suppress(StorageUnavailable):
                there(lambda: site.enqueue(*[LARGE] * 10))
        there(site.store.close)
    assert site.path.stat().st_size == size
    site.assert_nothing_lost()


def test_what_was_committed_when_the_disk_was_full_and_the_process_ended_is_there(site: Site) -> None:
    site.enqueue(*[LARGE] * 5)
    with refusing(full()) as there:
        # Closing would move the WAL into the file.
        there(site.store.close)
    site.assert_nothing_lost()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_commit_whose_outcome_is_unknown_happens_once_when_it_is_repeated(site: Site, code: int) -> None:
    # A file server takes what is written and may say only afterwards that it has no room for it.
    jobs = [NewJob(type="email", idempotency_key=f"key-{number}") for number in range(3)]
    with refusing(never_synced(code)) as there:
        site.assert_raises(StorageUnavailable, lambda: there(lambda: site.enqueue(*jobs)), "the outcome is unknown")
        answer = there(lambda: site.api.enqueue(idempotency_key="over-http"))
        site.assert_refused(answer, 503, "storage-unavailable", "the outcome is unknown")
    site.enqueue(*jobs)
    site.made.append(site.api.enqueue(idempotency_key="over-http").body["id"])
    site.assert_nothing_lost()


def test_a_sweep_without_room_says_so_and_the_next_one_does_the_work(site: Site) -> None:
    site.api.clock.advance(seconds=61)
    with refusing(full()) as there:
        site.assert_raises(StorageUnavailable, lambda: there(site.api.sweep), FULL)
    assert site.assert_logged(FULL)["request_id"] == "sweep"
    assert site.api.sweep()["leases_expired"] == 1


def test_a_backup_without_room_for_its_copy_is_no_backup_and_the_queue_goes_on(site: Site, tmp_path: Path) -> None:
    site.enqueue(*[LARGE] * 20)
    copy = tmp_path / "half.db"
    for refusals in (full(), full(10 * BYTES)):
        with refusing(refusals) as there:
            site.assert_raises(StorageUnavailable, lambda: there(lambda: site.store.back_up(copy)), FULL_OR_BROKEN)
        copy.unlink(missing_ok=True)
    site.assert_nothing_lost()


def small_disk(directory: Path) -> tuple[list[str], str]:
    """Return a command that another runs in, on a small file system, and how small_disk.py calls that."""
    for rights in ([], ["--map-root-user"]):
        unshare = ["unshare", "--mount", *rights, "--", "sh", "-c"]
        mount = f"mount -t tmpfs -o size=6m none '{directory}'"
        with suppress(FileNotFoundError):
            if subprocess.run([*unshare, mount], check=False, capture_output=True).returncode == 0:
                return [*unshare, f'{mount} && exec "$@"', "sh"], "mounted"
    # Hardened hosts let nobody but root mount anything; there a limit of the process's own has to do.
    return [], "limited"


def test_a_disk_that_fills_up_and_is_cleared_loses_nothing(network: bool, tmp_path: Path) -> None:
    command, mode = small_disk(tmp_path)
    program = ["-m", "tests.faults.small_disk", mode, "network" if network else "local", str(tmp_path)]
    done = subprocess.run(
        [*command, sys.executable, "-W", "error", *program],
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = [int(id) for id in done.stdout.split()]
    assert made == list(range(1, len(made) + 1))
    assert len(made) > 10
