from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

#: Linux's names of file systems that several hosts may share, or that lack a local disk's locks and shared memory.
#: FUSE has many names after its dot; all are treated alike, since the kernel knows nothing of what is behind them.
NETWORK_TYPES = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse",
        "fuseblk",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
        "virtiofs",
    ]
)


class Mount(NamedTuple):
    """A mounted file system: Linux's name of its type, and the options."""

    kind: str
    options: frozenset[str]


def is_network_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Say whether `path` lies on a file system that other hosts may share.

    Where the kernel doesn't tell (there is no /proc on macOS), the answer is no.
    """
    kind = file_system_type(path, mounts)
    return kind is not None and kind.partition(".")[0] in NETWORK_TYPES


def file_system_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return Linux's name of the file system that holds `path`, such as ext4 or nfs4; None where there is no /proc."""
    found = mount_of(path, mounts)
    return None if found is None else found.kind


def mount_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> Mount | None:
    """Return how the file system that holds `path` is mounted; None where there is no /proc."""
    # Names of files are bytes; the kernel escapes blanks in them, but no other letter that Python splits at.
    try:
        lines = os.fsdecode(mounts.read_bytes()).rstrip("\n").split("\n")
    except OSError:
        return None
    wanted = os.path.realpath(path)
    best, found = "", None
    for line in lines:
        # Fields as in proc(5): the fifth is the mount point, the sixth its options; after a lone hyphen follow the type
        # and, in the end, the file system's own options.
        before, _, after = line.partition(" - ")
        fields, (kind, *_, own) = before.split(" "), after.split(" ")
        mount_point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        inside = wanted == mount_point or wanted.startswith(mount_point.rstrip("/") + "/")
        # The last of equal mount points wins: it was mounted over the others.
        if inside and len(mount_point) >= len(best):
            best, found = mount_point, Mount(kind, frozenset([*fields[5].split(","), *own.split(",")]))
    return found
