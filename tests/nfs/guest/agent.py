"""Process 1 of the virtual machine once it is set up: runs one scenario after another, as the host asks for them.

A request is a line of JSON, {"scenario", "arguments", "seconds"}, and so is its answer: {"result"}, or {"failure"}, a
text. Each scenario is a process with a new directory of the export. When this process ends, the kernel panics and the
machine with it, which is what the host wants to see then.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

EXPORT = Path("/export")


def run(number: int, scenario: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
    name = f"{scenario}-{number}"
    folder = EXPORT / name
    folder.mkdir()
    # To everybody, since the scenario's programs are an ordinary user.
    folder.chmod(0o777)
    answer = Path(f"/run/{name}.json")
    output = Path(f"/run/{name}.out")
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", f"tests.nfs.guest.{scenario}", name, str(answer)],
            env=os.environ | {"LD_PRELOAD": "/lab/shim.so", "ARGUMENTS": json.dumps(arguments)},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        # Whatever it left behind, finished or not. A process that waits for the network dies when it comes back.
        kill_session(process.pid)
    reap()
    said = output.read_text(errors="replace")
    if status == 0 and answer.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return {"result": json.loads(answer.read_text()), "output": said}
    how = f"was not done within {seconds:g} s" if status is None else f"ended with status {status}"
    return {"failure": f"{scenario} {how}\n{said}\nThe kernel's last words:\n{kernel_log()}"}


def kill_session(leader: int) -> None:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == leader:
                os.kill(int(entry.name), signal.SIGKILL)
        except ProcessLookupError:
            continue


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def kernel_log() -> str:
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout[-2_000:]


def main() -> None:
    # Read without a buffer, which would wait for more than a line; written with one, since a long line goes in pieces.
    port = os.open("/dev/vport0p1", os.O_RDWR)
    with open(port, "wb", closefd=False) as answers:
        answers.write(b'{"ready": true}\n')
        answers.flush()
        for number, request in enumerate(iter(lambda: read_line(port), "")):
            answer = run(number, **json.loads(request))
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


def read_line(port: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        some = os.read(port, 1)
        if not some:
            # Nobody is at the other end any more: let the machine end, too.
            return ""
        line += some
    return line.decode()


if __name__ == "__main__":
    main()
