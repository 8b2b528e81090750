"""A file system that is read-only, or that becomes so under a queue in use; a file that this user may not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Queue, StorageUnavailable, Store
from tests.faults.kernel import read_only, refusing
from tests.faults.support import ANY, Site
from tests.http.support import assert_problem, success
from tests.support import admin, unprivileged

if TYPE_CHECKING:
    from pathlib import Path

#: A file that is open when its file system becomes read-only fails at the next write, like any broken disk.
READ_ONLY = "read-only for this user|its directory must exist and be writable|The file system failed"
FORBIDDEN = "read-only for this user|its directory must exist and be writable|may not read and write it"


def write_once(site: Site) -> None:
    """Write, which may fail once more: a connection that was opened meanwhile is read-only until it is given up."""
    beat = site.changes()["heartbeat_job"]
    if beat().status == 503:
        success(beat())


@pytest.mark.parametrize("is_in_use", [True, False], ids=["in use", "at the start"])
def test_a_read_only_file_system_refuses_changes_until_it_is_writable(site: Site, is_in_use: bool) -> None:
    if not is_in_use:
        site.store.close()
    with refusing(read_only()) as there:
        site.assert_raises(StorageUnavailable, lambda: there(lambda: site.enqueue(ANY)), READ_ONLY)
        for change in site.changes().values():
            site.assert_refused(there(change), 503, "storage-unavailable", READ_ONLY)
        for look in site.looks().values():
            # A network file system lets it be read; WAL on a local disk can't be read without writing beside it.
            if (answer := there(look)).status not in {200, 204}:
                site.assert_refused(answer, 503, "storage-unavailable", READ_ONLY)
    write_once(site)
    site.assert_nothing_lost()


def test_a_queue_in_use_can_be_read_when_its_file_system_becomes_read_only(site: Site) -> None:
    with refusing(read_only()) as there:
        for look in site.looks().values():
            assert there(look).status in {200, 204}
    write_once(site)
    site.assert_nothing_lost()


def test_a_file_that_can_not_be_made_is_made_once_the_file_system_is_writable(network: bool, tmp_path: Path) -> None:
    store = Store(tmp_path / "new.db", network=network)
    caller = Queue(store).bound(admin())
    with refusing(read_only()) as there:
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match=READ_ONLY):
                there(lambda: caller.enqueue(ANY))
    assert list(tmp_path.iterdir()) == []
    assert caller.enqueue(ANY).job.id == 1
    store.close()


@pytest.mark.parametrize(
    ("file_mode", "directory_mode"),
    [(0o444, 0o555), (0o000, 0o755), (0o644, 0o000)],
    ids=["may not be written", "may not be read", "may not be reached"],
)
def test_a_file_that_this_user_may_not_use_is_a_sentence_until_it_may(
    site: Site, file_mode: int, directory_mode: int
) -> None:
    # Open files stay so whatever becomes of their permissions.
    site.store.close()
    directory = site.path.parent
    modes = {each: each.lstat().st_mode for each in (directory, *directory.iterdir())}
    site.path.chmod(file_mode)
    directory.chmod(directory_mode)
    try:
        with unprivileged():
            site.assert_raises(StorageUnavailable, lambda: site.enqueue(ANY), FORBIDDEN)
            for change in site.changes().values():
                site.assert_refused(change(), 503, "storage-unavailable", FORBIDDEN)
            if directory_mode == 0:
                assert_problem(site.api.ask("health"), 503, "storage-unavailable")
                site.assert_logged("can't be reached")
    finally:
        directory.chmod(modes[directory])
        site.path.chmod(modes[site.path])
    write_once(site)
    site.assert_nothing_lost()
