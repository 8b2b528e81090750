"""A queue on a disk that fills up: python -m tests.faults.small_disk mounted|limited local|network DIRECTORY.

mounted: the directory is a file system of its own, of a few megabytes, which this process may mount otherwise.
limited: it is not, and setrlimit(2) keeps files from growing as large. Prints the ids that the queue has acknowledged.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from queuelog import NewJob, Principal, Queue, Role, StorageUnavailable, Store

MEGABYTE = 1024 * 1024
LARGE = NewJob(type="email", payload={"a": "x" * 60_000})


def fill(directory: Path, is_mounted: bool) -> None:
    if is_mounted:
        directory.joinpath("filler").write_bytes(bytes(4 * MEGABYTE))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def make_room(directory: Path, is_mounted: bool) -> None:
    if is_mounted:
        directory.joinpath("filler").unlink()
    else:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def remount(directory: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,bind,{how}", directory], check=True)


def main(mode: str, network: str, folder: str) -> None:
    directory, is_mounted = Path(folder), mode == "mounted"
    store = Store(directory / "queue.db", network=network == "network")
    caller = Queue(store).bound(Principal(name="x", roles=frozenset({Role.ADMIN})))
    made = [caller.enqueue(LARGE).job.id]
    fill(directory, is_mounted)
    refused = 0
    while refused < 3:
        assert len(made) < 100, "nothing was refused"
        try:
            made.append(caller.enqueue(LARGE).job.id)
        except StorageUnavailable:
            refused += 1
    make_room(directory, is_mounted)
    made += [caller.enqueue(LARGE).job.id for _ in range(3)]
    store.close()
    if is_mounted:
        remount(directory, "ro")
        for _ in range(2):
            try:
                made.append(caller.enqueue(LARGE).job.id)
                raise AssertionError("the file system was not read-only")
            except StorageUnavailable:
                pass
        with suppress(StorageUnavailable):
            assert len(caller.list(limit=100).jobs) == len(made)
        store.close()
        remount(directory, "rw")
    made.append(caller.enqueue(LARGE).job.id)
    assert sorted(job.id for job in caller.list(limit=100).jobs) == made
    # Checks the whole file, too.
    store.back_up(directory / "copy.db")
    store.close()
    print(*made)


if __name__ == "__main__":
    main(*sys.argv[1:])
