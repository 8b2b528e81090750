from __future__ import annotations

from pathlib import Path

import pytest

from queuelog.store.file_system import NETWORK_TYPES, file_system_type, is_network_file_system


class Mounts:
    """What /proc/self/mountinfo says, with mount points inside a directory that is really there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.file = folder / "mountinfo"
        self.lines = [f"22 1 253:0 / {self.root} rw,relatime shared:1 - ext4 /dev/vda rw"]

    def add(self, kind: str, point: str, optional: str = "shared:9 ") -> None:
        self.lines.append(f"30 22 0:50 / {self.root}{point} rw,relatime {optional}- {kind} source rw,vers=4.1")

    def kind(self, path: str) -> str | None:
        self.file.write_text("\n".join(self.lines) + "\n")
        return file_system_type(self.root / path, self.file)

    def is_network(self, path: str) -> bool:
        self.kind(path)
        return is_network_file_system(self.root / path, self.file)


@pytest.fixture
def mounts(tmp_path: Path) -> Mounts:
    return Mounts(tmp_path)


def test_a_local_disk_is_local(mounts: Mounts) -> None:
    assert mounts.kind("queue.db") == "ext4"
    assert not mounts.is_network("queue.db")


def test_a_network_mount_inside_a_local_disk_is_network(mounts: Mounts) -> None:
    mounts.add("nfs4", "/mnt/queue")
    assert mounts.kind("mnt/queue/queue.db") == "nfs4"
    assert mounts.is_network("mnt/queue/queue.db")
    assert mounts.is_network("mnt/queue/deeper/queue.db")
    assert mounts.is_network("mnt/queue")
    assert not mounts.is_network("mnt/queue.db")
    assert not mounts.is_network("mnt/queue-of-another-name/queue.db")


def test_the_innermost_mount_decides(mounts: Mounts) -> None:
    mounts.add("nfs4", "/mnt")
    mounts.add("xfs", "/mnt/local")
    mounts.add("cifs", "/mnt/local/share")
    assert [mounts.kind(f"mnt{each}/q.db") for each in ("", "/local", "/local/share")] == ["nfs4", "xfs", "cifs"]


def test_the_order_of_the_lines_does_not_make_an_outer_mount_inner(mounts: Mounts) -> None:
    mounts.add("xfs", "/mnt/local")
    mounts.add("nfs4", "/mnt")
    assert mounts.kind("mnt/local/q.db") == "xfs"


def test_of_mounts_on_one_point_the_last_is_on_top(mounts: Mounts) -> None:
    mounts.add("nfs4", "/mnt")
    mounts.add("tmpfs", "/mnt")
    assert mounts.kind("mnt/q.db") == "tmpfs"
    mounts.add("nfs4", "/mnt")
    assert mounts.is_network("mnt/q.db")


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("my queue", r"my\040queue"),
        ("a\tb\nc", r"a\011b\012c"),
        ("back\\slash", r"back\134slash"),
        ("a#b", r"a\043b"),
        ("not\\040a blank", r"not\134040a\040blank"),
        ("no\u00a0break", "no\u00a0break"),
        ("form\x0cfeed", "form\x0cfeed"),
        ("- x", r"-\040x"),
    ],
)
def test_blanks_in_a_mount_point_are_escaped(mounts: Mounts, name: str, escaped: str) -> None:
    mounts.add("nfs4", f"/{escaped}")
    assert mounts.kind(f"{name}/q.db") == "nfs4"
    assert mounts.kind("q.db") == "ext4"


def test_a_mount_point_need_not_be_utf_8(mounts: Mounts) -> None:
    mounts.kind("q.db")
    line = mounts.lines[0].encode().replace(b" /dev/vda", b" \xff").replace(b"root rw", b"root/\xe9 rw")
    mounts.file.write_bytes(mounts.file.read_bytes() + line.replace(b"ext4", b"nfs4") + b"\n")
    assert file_system_type(mounts.root / "q.db", mounts.file) == "ext4"
    assert file_system_type(mounts.root / "\udce9" / "q.db", mounts.file) == "nfs4"


@pytest.mark.parametrize("optional", ["", "shared:1 ", "shared:1 master:2 propagate_from:3 unbindable "])
def test_optional_fields_do_not_shift_the_type(mounts: Mounts, optional: str) -> None:
    mounts.add("nfs4", "/mnt", optional)
    assert mounts.kind("mnt/q.db") == "nfs4"


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "fuse.sshfs", "fuse.s3fs", "fuseblk", "9p", "virtiofs", "lustre"]
)
def test_what_other_hosts_may_share_is_network(mounts: Mounts, kind: str) -> None:
    mounts.add(kind, "/mnt")
    assert mounts.kind("mnt/q.db") == kind
    assert mounts.is_network("mnt/q.db")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "nfsd", "f2fs", "apfs"])
def test_what_one_host_has_is_local(mounts: Mounts, kind: str) -> None:
    mounts.add(kind, "/mnt")
    assert not mounts.is_network("mnt/q.db")


def test_a_link_is_followed_to_where_the_file_is(mounts: Mounts) -> None:
    mounts.add("nfs4", "/mnt")
    (mounts.root / "link").symlink_to(mounts.root / "mnt", target_is_directory=True)
    assert mounts.is_network("link/queue.db")


def test_a_file_need_not_be_there(mounts: Mounts) -> None:
    mounts.add("nfs4", "/mnt")
    assert mounts.is_network("mnt/no/such/directory/queue.db")


def test_a_relative_path_is_one_from_the_working_directory(mounts: Mounts, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts.add("nfs4", "/mnt")
    mounts.kind("")
    (mounts.root / "mnt").mkdir()
    monkeypatch.chdir(mounts.root / "mnt")
    assert is_network_file_system(Path("queue.db"), mounts.file)


def test_the_root_itself_is_a_mount_point(mounts: Mounts) -> None:
    mounts.lines = ["22 1 253:0 / / rw - nfs4 server:/ rw"]
    assert mounts.kind("q.db") == "nfs4"


def test_without_proc_every_file_is_local(tmp_path: Path) -> None:
    assert file_system_type(tmp_path / "q.db", tmp_path / "no-proc" / "mountinfo") is None
    assert not is_network_file_system(tmp_path / "q.db", tmp_path / "no-proc" / "mountinfo")


def test_a_path_outside_every_mount_is_local(mounts: Mounts, tmp_path: Path) -> None:
    mounts.kind("q.db")
    assert file_system_type(tmp_path / "q.db", mounts.file) is None
    assert not is_network_file_system(tmp_path / "q.db", mounts.file)


def test_this_machine_s_own_list_can_be_read(tmp_path: Path) -> None:
    kind = file_system_type(tmp_path)
    assert kind is None or kind.isprintable()


def test_network_types_are_sorted_for_the_reader() -> None:
    assert all(kind == kind.lower() and "." not in kind for kind in NETWORK_TYPES)
