"""What can be said of a queue's file and its registry without changing either; needs the queue's core."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from queuelog.errors import InvalidRegistry, SchemaTooNew, StorageBusy, StorageError, StorageUnusable
from queuelog.registry import Registry
from queuelog.store import examination, snapshots
from queuelog.store.file_system import NETWORK_TYPES, Mount, mount_of
from queuelog_client.cli.doctor.findings import Finding, fault, ok, warning
from queuelog_client.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from queuelog.store.examination import Form, Log

RESTORE = "Stop whatever uses the file, and put a backup in its place: queuelog restore."
MIB = 1024 * 1024
#: Bytes: with less than the first a busy hour fills the file system, with less than the second it is as good as full.
LITTLE_ROOM, NO_ROOM = 256 * MIB, 16 * MIB
LONG_WAL = 64 * MIB
#: A lease that ended so long ago should have been swept several times.
SWEPT_WITHIN = timedelta(minutes=10)
#: How far in the future something may seem to be that was written on another machine.
CLOCKS_APART = timedelta(seconds=60)
ENDS_SOON = timedelta(days=14)
#: Mount options of NFS by which locks stay on this host, unseen by the others.
LOCKS_AT_HOME = frozenset({"nolock", "local_lock=all", "local_lock=posix"})


def check_file(path: Path, now: datetime, mounts: Path) -> Iterator[Finding]:
    """Look at a queue's file, and yield what is found."""
    path = path.resolve()
    yield _sqlite()
    if not path.parent.is_dir():
        yield fault("file", f"There is no directory {path.parent}.", "See whether its file system is mounted.")
        return
    mount = mount_of(path, mounts)
    yield _file_system(mount)
    yield _locks(path.parent)
    yield _room(path)
    if not path.is_file():
        yield fault("file", f"There is no file {path}.", "Name the queue's own; the first call makes a new, empty one.")
        return
    yield from _permissions(path)
    try:
        form = examination.form_of(path)
        is_half_done = not form.is_wal and examination.is_half_done(path)
    except StorageError as error:
        yield fault("journal", str(error), RESTORE)
        return
    except OSError as error:
        yield fault("journal", f"{path} can't be read ({error.strerror}).", "Let this user read it, or be another one.")
        return
    yield _journal(form, mount)
    if is_half_done:
        # To look inside would mean to roll it back.
        said = "Not looked at: a transaction is half done, or its writer died."
        yield warning("integrity", said, "Try again. Of a dead writer the next call undoes it.")
        return
    log = _wal(path)
    yield log
    if log.level == "fault":
        # A first look at the file would make the index anew, and with it what shows the loss.
        yield warning("integrity", "Not looked at, so that all stays as it is.", "Copy the files first.")
        return
    yield from _inside(path, now)


def check_registry(data_dir: Path, now: datetime) -> Iterator[Finding]:
    """Look at the registry and the keys of a local queue, and yield what is found."""
    path = data_dir / "principals.json"
    try:
        registry = Registry.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        yield warning("registry", f"There is no {path}: nobody can come in.", "Make a key: queuelog keys create.")
        return
    except OSError as error:
        yield fault("registry", f"{path} can't be read ({error.strerror}).", "Let this user read it.")
        return
    except (InvalidRegistry, UnicodeDecodeError) as error:
        yield fault("registry", f"{path}: {error}", "Correct it by hand, or put a copy of it back.")
        return
    lasting = {each.principal.name for each in registry.entries if not each.has_expired(now + ENDS_SOON)}
    soon = [
        each.key_id
        for each in registry.entries
        if not each.has_expired(now) and each.has_expired(now + ENDS_SOON) and each.principal.name not in lasting
    ]
    living = sum(not each.has_expired(now) for each in registry.entries)
    expired = len(registry.entries) - living
    said = f"The registry has {counted(living, 'key')} that work, and {expired} that have expired."
    if soon:
        yield warning("registry", f"{said} Soon to expire: {', '.join(soon)}.", "Make others: queuelog keys rotate.")
    else:
        yield ok("registry", said)
    yield from _privacy(data_dir)


def _sqlite() -> Finding:
    version, is_good = examination.sqlite_version()
    here = f"SQLite {version}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    if is_good:
        return ok("sqlite", f"{here}.")
    return fault("sqlite", f"{here}: Queuelog needs SQLite 3.40 or newer.", "Use a newer Python.")


def _file_system(mount: Mount | None) -> Finding:
    if mount is None:
        return warning("file-system", "The file system's type is unknown.", "Make sure that it is local.")
    kind = f"The file system is {mount.kind}"
    if locks := mount.options & LOCKS_AT_HOME:
        advice = "Mount it without: hosts would not see each other's locks, and ruin the file."
        return fault("file-system", f"{kind}, mounted with {', '.join(sorted(locks))}.", advice)
    if mount.kind.partition(".")[0] not in NETWORK_TYPES:
        if mount.kind in {"tmpfs", "ramfs"}:
            return warning("file-system", f"{kind}: it is gone with the machine's memory.", "Put the queue on a disk.")
        return ok("file-system", f"{kind}, of this machine alone.")
    if mount.kind != "nfs4":
        return warning(
            "file-system",
            f"{kind}, which several hosts may share: Queuelog was never tried on it.",
            "Use NFSv4.1, as EFS is, or a local disk.",
        )
    return ok("file-system", f"{kind}, which several hosts may share.")


def _locks(directory: Path) -> Finding:
    try:
        if examination.locks_exclude(directory):
            return ok("locks", "A lock keeps another process of this machine out, and lets it in afterwards.")
    except OSError as error:
        return fault("locks", f"{directory} can't be written ({error.strerror}).", "Let the queue's user write there.")
    return fault(
        "locks",
        "Locks don't keep other processes out: two writers would ruin the file.",
        "Stop whatever uses the file, and move it to a file system with POSIX locks.",
    )


def _room(path: Path) -> Finding:
    found = os.statvfs(path.parent)
    free = found.f_bavail * found.f_frsize
    said = f"{free // MIB:,} MiB are free."
    if free < NO_ROOM or (found.f_files and not found.f_favail):
        return fault("space", f"The file system is full: {said}", "Make room: nothing can be written.")
    if free < LITTLE_ROOM:
        return warning("space", said, "Make room, before the file system is full.")
    return ok("space", said)


def _permissions(path: Path) -> Iterator[Finding]:
    user = f"user {os.geteuid()}"
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        yield fault("permissions", "The file system is mounted read-only.", "Mount it for writing.")
    elif not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        advice = f"Let the queue's user write {path}, or be that user."
        yield fault("permissions", f"The file can't be written by {user}.", advice)
    elif path.stat().st_mode & stat.S_IWOTH:
        yield warning("permissions", "Every user of this machine can write the file.", f"chmod o-w {path}")
    else:
        yield ok("permissions", f"The file can be read and written by {user}.")


def _journal(form: Form, mount: Mount | None) -> Finding:
    is_network = mount is not None and mount.kind.partition(".")[0] in NETWORK_TYPES
    kept = {None: "empty", False: "one with a rollback journal", True: "one in WAL mode"}[form.is_wal]
    if form.is_shared:
        if sys.version_info < (3, 12):
            return fault("journal", "The file is one that hosts share.", "Use Python 3.12 or newer.")
        return ok("journal", "The file is one that hosts share: WAL, with its index in memory.")
    if not is_network:
        later = "" if form.is_wal else " The first call brings it into WAL mode."
        return ok("journal", f"The file is {kept}, for processes of this machine.{later}")
    if form.is_wal:
        return fault(
            "journal",
            "The file is in WAL mode as on a local disk, which is not safe on a network file system.",
            "Stop every user of the file, then convert it on one host: sqlite3 FILE 'PRAGMA journal_mode = DELETE'",
        )
    return warning("journal", f"The file is {kept}.", "Nothing: the first call makes it one that hosts share.")


def _wal(path: Path) -> Finding:
    try:
        log = examination.log_of(path)
        for _ in range(3):
            # A checkpoint between two looks makes it shorter than what was known of it, and a writer may be at work.
            if log is None or not (log.lost_frames or log.is_torn):
                break
            time.sleep(0.05)
            log = examination.log_of(path)
    except OSError as error:
        return fault("wal", f"The WAL can't be read ({error.strerror}).", "Let this user read it, or be another one.")
    return _judge_wal(log)


def _judge_wal(log: Log | None) -> Finding:
    if log is None or not (log.bytes or log.lost_frames):
        return ok("wal", "Everything is in the file itself: the WAL is empty.")
    size = f"The WAL has {log.bytes:,} bytes"
    if log.lost_frames:
        lost = counted(log.lost_frames, "page")
        said = f"{size}, and {lost} fewer than were written to it: acknowledged changes are lost."
        return fault("wal", said, f"Find out what has cut it. {RESTORE}")
    if not log.is_readable:
        return fault("wal", f"{size} and is not one: what it held is lost.", RESTORE)
    if log.is_torn:
        return warning("wal", f"{size} and ends within a page.", "Nothing: a writer died there, uncommitted.")
    if log.bytes > LONG_WAL:
        advice = "Find the process that reads the file and never ends: it keeps the WAL from shrinking."
        return warning("wal", f"{size}, and every call reads it.", advice)
    return ok("wal", f"{size}.")


def _inside(path: Path, now: datetime) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory(prefix="queuelog-doctor-") as directory:
        copy = Path(directory) / "queue.db"
        here = os.statvfs(directory)
        if here.f_bavail * here.f_frsize < path.stat().st_size + LITTLE_ROOM:
            yield warning("integrity", f"Not looked at: {directory} has no room for a copy.", "Set TMPDIR elsewhere.")
            return
        try:
            snapshots.copy_file(path, copy)
            content = examination.content_of(copy, now - SWEPT_WITHIN)
        except SchemaTooNew as error:
            yield fault("schema", str(error), "Or put a backup from before the upgrade in its place.")
            return
        except StorageBusy as error:
            yield warning("integrity", f"Not looked at. {error}", "Try again in a quiet moment.")
            return
        except StorageUnusable as error:
            yield fault("integrity", f"The file can't be copied. {error}", RESTORE)
            return
        except (StorageError, OSError) as error:
            advice = "See that this user may read it, and that its directory can be written."
            yield fault("integrity", f"The file can't be copied. {error}", advice)
            return
    if content.faults:
        yield fault("integrity", f"The file is damaged: {'; '.join(content.faults)}.", RESTORE)
        return
    yield ok("integrity", f"Every page of a copy is as it should be; it holds {counted(content.jobs, 'job')}.")
    yield _schema(content)
    yield _clock(content, now)
    if content.overdue:
        said = f"{counted(content.overdue, 'lease')} ended more than {SWEPT_WITHIN.seconds // 60} minutes ago."
        yield warning("sweep", said, "See whether the sweep runs: it should have taken them back.")


def _schema(content: examination.Content) -> Finding:
    version = ".".join(map(str, content.version))
    if not content.pending:
        return ok("schema", f"The schema is {version}, this release's own.")
    newest = ".".join(map(str, content.pending[-1]))
    return warning("schema", f"The schema is {version}; {newest} is to come.", "Nothing: a call or the sweep does it.")


def _clock(content: examination.Content, now: datetime) -> Finding:
    if content.newest is None or content.newest <= now + CLOCKS_APART:
        return ok("clock", "No job comes from the future.")
    ahead = (content.newest - now).total_seconds()
    advice = "Set the clocks of this machine and of those that use the file: jobs wait until they have caught up."
    return fault("clock", f"The newest job was made {ahead:,.0f} s from now, by a clock that is ahead or was.", advice)


def _privacy(data_dir: Path) -> Iterator[Finding]:
    for name, holds in (("principals.json", "who may come in"), ("keys.json", "keys")):
        path = data_dir / name
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IWOTH:
            yield fault("privacy", f"Every user of this machine can write {path}: {holds}.", f"chmod 600 {path}")
        elif mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield warning("privacy", f"Others than its owner can read {path}: {holds}.", f"chmod 600 {path}")
        else:
            yield ok("privacy", f"{path} is for its owner alone.")
