from __future__ import annotations

import os
import re
from pathlib import Path

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


def is_network_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Say whether `path` lies on a file system that other hosts may share.

    Where the kernel doesn't tell (there is no /proc on macOS), the answer is no.
    """
    kind = file_system_type(path, mounts)
    return kind is not None and kind.partition(".")[0] in NETWORK_TYPES


def file_system_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return Linux's name of the file system that holds `path`, such as ext4 or nfs4; None where there is no /proc."""
    try:
        # Names of files are bytes; the kernel escapes blanks in them, but no other letter that Python splits at.
        lines = os.fsdecode(mounts.read_bytes()).rstrip("\n").split("\n")
    except OSError:
        return None
    wanted = os.path.realpath(path)
    best, kind = "", None
    for line in lines:
        # Fields as in proc(5): the fifth is the mount point; the type follows a lone hyphen after optional fields.
        before, _, after = line.partition(" - ")
        mount_point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split(" ")[4])
        inside = wanted == mount_point or wanted.startswith(mount_point.rstrip("/") + "/")
        # The last of equal mount points wins: it was mounted over the others.
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, after.split(" ")[0]
    return kind
