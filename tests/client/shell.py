from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from click.testing import CliRunner

from queuelog_client.cli import commands
from queuelog_client.cli.outside import Outside
from tests.support import ROOT, START

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

#: What make would take from the environment.
VARIABLES = {"DATA_DIR", "EXPIRES", "FROM", "MAX_PRIORITY", "NAME", "ROLES", "STACK", "TYPES"}


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What it says last of what went wrong."""
        return self.err.splitlines()[-1]


def queuelog(
    *arguments: object,
    now: Callable[[], datetime] = lambda: START,
    client: Callable[..., Any] | None = None,
    mounts: Path = Path("/proc/self/mountinfo"),
) -> Ran:
    """Run the command line in this process, with a clock, an AWS and a list of mounts of the test's own."""
    runner = CliRunner(mix_stderr=False)
    world = Outside(now=now, client=client, mounts=mounts)
    result = runner.invoke(commands, [*map(str, arguments)], obj=world, prog_name="queuelog", catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr)


def made_by_make(target: str, folder: Path, **variables: str) -> list[list[str]]:
    """Run a target whose command only says what it was called with; return that."""
    (folder / "queuelog").write_text('#!/bin/sh\nfor each in "$@"; do printf "%s\\n" "$each"; done; echo END\n')
    (folder / "queuelog").chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = ["make", "--silent", "--no-print-directory", "-C", str(ROOT), target, f"BIN={folder}", "READY="]
    given = [f"{name}={value}" for name, value in variables.items()]
    done = subprocess.run([*command, *given], env=environ, capture_output=True, text=True, check=True)
    return [each.splitlines() for each in done.stdout.removesuffix("END\n").split("END\n")]
