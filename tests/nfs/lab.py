"""The laboratory: one virtual machine with an NFSv4.1 server and four clients, and scenarios that run in it by name.

`python -m tests.nfs.lab SCENARIO [name=value …]` runs one and prints its result. NFS_LAB_CORE names another directory
that holds the package queuelog, so that one laboratory measures two versions of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
GUEST = ROOT / "tests/nfs/guest"
CORE = Path(os.environ.get("NFS_LAB_CORE", ROOT / "layers/queuelog/python")).resolve()
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "queuelog-nfs-lab"

SUITE = "trixie"
PACKAGES = "python3,nfs-kernel-server,nfs-common,linux-image-cloud-amd64,iproute2,kmod,initramfs-tools"
CLIENTS = 4
#: Seconds; the shortest that tests a lost lease in reasonable time.
LEASE = 20
#: What a request to EFS takes at the least.
DELAY = "1ms"
#: Seconds that the machine has to start.
BOOT = 180.0

#: Debian keeps some of the tools where an ordinary user's PATH doesn't look.
ENVIRONMENT = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
#: What to install, by the program that is missing.
TOOLS = {
    "cc": "a C compiler (Debian: gcc and libc6-dev)",
    "debootstrap": "debootstrap",
    "mkfs.ext4": "e2fsprogs",
    "qemu-system-x86_64": "qemu-system-x86",
}


class LabFailure(Exception):
    """A scenario, or the machine that it ran in, failed; the text is what the guest had said by then."""


class Lab:
    """One virtual machine, started for the first scenario and again after a failure."""

    def __init__(self) -> None:
        self._machine: Machine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, scenario: str, *, seconds: float, **arguments: object) -> Any:
        """Run a scenario of tests/nfs/guest and return its result; raise LabFailure, after so many seconds too."""
        if self._machine is None:
            self._machine = Machine(image())
        try:
            answer = self._machine.ask(
                {"scenario": scenario, "arguments": arguments, "seconds": seconds}, seconds=seconds + 60
            )
        except BaseException:
            self._stop()
            raise
        if "failure" in answer:
            # Links may be down and processes stuck in the kernel: the next scenario gets a new machine.
            self._stop()
            raise LabFailure(answer["failure"])
        # Which pytest shows if the test fails.
        print(answer["output"], file=sys.stderr)
        return answer["result"]

    def _stop(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.stop()


class Machine:
    """A running virtual machine, and the line to its agent."""

    def __init__(self, folder: Path) -> None:
        self._work = tempfile.TemporaryDirectory(prefix="queuelog-nfs-lab-")
        work = Path(self._work.name)
        self._console = work / "console"
        pack(work / "lab.tar")
        export = work / "export.img"
        with export.open("wb") as file:
            file.truncate(2 << 30)
        call("mkfs.ext4", "-q", "-F", str(export))
        settings = f"lab.clients={CLIENTS} lab.lease={LEASE} lab.delay={DELAY}"
        drives = [
            # Changes go to a file that is deleted: the cached image stays as it was made.
            f"file={folder / 'root.img'},if=virtio,format=raw,snapshot=on",
            f"file={work / 'lab.tar'},if=virtio,format=raw,readonly=on",
            f"file={export},if=virtio,format=raw,cache=unsafe",
        ]
        line = work / "line"
        self._process = subprocess.Popen(
            [
                "qemu-system-x86_64",
                # Always emulated: slow, but it runs on every machine, and it is requests that are counted, not seconds.
                *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3072"),
                *("-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self._console}"),
                *("-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initrd.img")),
                *(
                    "-append",
                    f"root=/dev/vda rw console=ttyS0 init=/init panic=-1 loglevel=5 mitigations=off {settings}",
                ),
                *(part for drive in drives for part in ("-drive", drive)),
                *("-device", "virtio-serial-pci", "-chardev", f"socket,id=line,path={line},server=on,wait=off"),
                *("-device", "virtserialport,chardev=line,name=lab"),
            ],
            stdin=subprocess.DEVNULL,
        )
        self._line = socket.socket(socket.AF_UNIX)
        try:
            self._connect(line)
            self._heard = b""
            self._read(BOOT)
        except BaseException:
            self.stop()
            raise

    def ask(self, request: dict[str, object], *, seconds: float) -> dict[str, Any]:
        """Send a request and return its answer."""
        self._line.sendall(json.dumps(request).encode() + b"\n")
        return self._read(seconds)

    def stop(self) -> None:
        """Turn the machine off as a power cut would, and forget it."""
        self._process.kill()
        self._process.wait()
        self._line.close()
        self._work.cleanup()

    def _connect(self, path: Path) -> None:
        while True:
            try:
                self._line.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                if self._process.poll() is not None:
                    raise LabFailure("qemu did not start.") from None
                time.sleep(0.05)
            else:
                return

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            self._line.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                some = self._line.recv(1 << 16)
            except TimeoutError:
                raise LabFailure(f"The machine said nothing for {seconds:g} s.\n{self._said()}") from None
            if not some:
                raise LabFailure(f"The machine is gone.\n{self._said()}")
            self._heard += some
        text, _, self._heard = self._heard.partition(b"\n")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _said(self) -> str:
        return self._console.read_text(errors="replace")[-4_000:]


def image() -> Path:
    """Return the folder with the machine's disk and kernel, made if this recipe's was not made before (a minute)."""
    recipe = "\n".join((SUITE, PACKAGES, (GUEST / "init").read_text()))
    folder = CACHE / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="making-") as name:
        made, root = Path(name) / "image", Path(name) / "root"
        made.mkdir()
        call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root))
        shutil.copy(GUEST / "init", root / "init")
        (root / "init").chmod(0o755)
        for file in ("vmlinuz", "initrd.img"):
            (newest,) = (root / "boot").glob(f"{file}-*")
            shutil.copy(newest, made / file)
        with (made / "root.img").open("wb") as disk:
            disk.truncate(2 << 30)
        call("mkfs.ext4", "-q", "-F", "-d", str(root), str(made / "root.img"))
        made.rename(folder)
    return folder


def pack(archive: Path) -> None:
    """Write what the machine gets on its second disk: the core, the guest's programs, the shim."""
    with tempfile.TemporaryDirectory() as work, tarfile.open(archive, "w") as tar:
        shim = Path(work) / "shim.so"
        call("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(shim), str(GUEST / "shim.c"), "-ldl")
        tar.add(shim, "shim.so")
        tar.add(CORE / "queuelog", "core/queuelog", filter=without_caches)
        for each in ("nfs/guest", "race", "support.py"):
            tar.add(ROOT / "tests" / each, f"tests/{each}", filter=without_caches)


def without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.endswith("__pycache__") else entry


def call(*command: str) -> None:
    """Run a program of the host; raise LabFailure with what it said if it fails."""
    done = subprocess.run(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise LabFailure(f"{' '.join(command)}\n{done.stdout[-4_000:]}")


def missing() -> str | None:
    """Return a sentence that says what this machine lacks, or None."""
    lacking = sorted(what for tool, what in TOOLS.items() if shutil.which(tool, path=ENVIRONMENT["PATH"]) is None)
    if lacking:
        return f"The NFS laboratory needs {', '.join(lacking)}: install them with your system's package manager."
    if platform.machine() != "x86_64":
        return "The NFS laboratory needs an x86-64 machine, as its virtual one is."
    if os.geteuid():
        return "The NFS laboratory needs root to make the virtual machine's disk: run it with sudo."
    return None


def main(scenario: str, *settings: str) -> None:
    """Run one scenario."""
    arguments = {name: json.loads(value) for name, _, value in (each.partition("=") for each in settings)}
    lacking = missing()
    if lacking:
        sys.exit(lacking)
    with Lab() as lab:
        print(json.dumps(lab.run(scenario, seconds=900, **arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
