from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from click.testing import CliRunner

from queuelog_client.cli import commands
from queuelog_client.cli.outside import Outside
from tests.support import ROOT, START, start_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from botocore.stub import Stubber

    from tests.client.support import Stack

# A Click before 8.2 has to be told to keep the two outputs apart, and later ones can't be.
OPTIONS: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
RUNNER = CliRunner(**OPTIONS)
#: What make would take from the environment.
VARIABLES = {"DATA_DIR", "EXPIRES", "FROM", "MAX_PRIORITY", "NAME", "ROLES", "STACK", "TYPES"}


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What it says last of what went wrong."""
        return self.err.splitlines()[-1]


class Terminal(io.BytesIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


class Pipe(io.BytesIO):
    """A standard input that has a number, by which the system knows it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._number = file.fileno()

    def fileno(self) -> int:
        return self._number


def queuelog(
    *arguments: object,
    typed: bytes | Terminal = b"",
    environment: Mapping[str, str] | None = None,
    now: Callable[[], datetime] = lambda: START,
    client: Callable[..., Any] | None = None,
    mounts: Path = Path("/proc/self/mountinfo"),
) -> Ran:
    """Run the command line in this process, with a clock, an AWS and a list of mounts of the test's own."""
    with tempfile.TemporaryFile() as file:
        if not isinstance(typed, Terminal):
            file.write(typed)
            file.seek(0)
        result = RUNNER.invoke(
            commands,
            [*map(str, arguments)],
            prog_name="queuelog",
            input=typed if isinstance(typed, Terminal) else Pipe(file),
            env=environment,
            obj=Outside(now=now, client=client, mounts=mounts),
            catch_exceptions=False,
        )
    return Ran(result.exit_code, without_metrics(result.stdout), without_metrics(result.stderr))


def without_metrics(printed: str) -> str:
    """Leave out what a local API's functions print of themselves, for they run in this process."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith('{"_aws"'))


@dataclass
class Shell:
    """Runs commands as an admin of a stack, unless told otherwise."""

    stack: Stack
    role: str = "admin"
    url: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: object, typed: bytes | Terminal = b"") -> Ran:
        environment = {
            "QUEUELOG_URL": self.url or self.stack.api.url,
            "QUEUELOG_API_KEY": self.stack.api.keys[self.role],
        }
        return queuelog(*arguments, typed=typed, environment=environment | self.environment, now=self.stack.clock.now)

    def says(self, *arguments: object, **options: Any) -> str:
        """Return what a command prints that has nothing to complain of."""
        ran = self.run(*arguments, **options)
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    def json(self, *arguments: object, **options: Any) -> Any:
        """Return the one document that a command prints."""
        return json.loads(self.says(*arguments, "--json", **options))

    def fails(self, code: int, *arguments: object, **options: Any) -> str:
        """Return what a command complains of that ends with this code."""
        ran = self.run(*arguments, **options)
        assert ran.code == code, ran
        return ran.err


def add_resource(cloudformation: Stubber, name: str, id: str) -> None:
    """Let CloudFormation's stub answer once for a resource of the stack queue."""
    detail = {
        "LogicalResourceId": name,
        "PhysicalResourceId": id,
        "ResourceType": "AWS::Some::Thing",
        "LastUpdatedTimestamp": START,
        "ResourceStatus": "CREATE_COMPLETE",
    }
    asked = {"StackName": "queue", "LogicalResourceId": name}
    cloudformation.add_response("describe_stack_resource", {"StackResourceDetail": detail}, asked)


def leave_a_log(path: Path) -> None:
    """Put the log of a writer that was killed beside a path: it holds jobs that are not in the file yet."""
    code = (
        "import os, sys; from queuelog import *; from tests.support import *\n"
        "queue = Queue(Store(sys.argv[1], network=False)).bound(admin())\n"
        "[queue.enqueue(NewJob(type='email')) for _ in range(9)]\n"
        "os._exit(0)"
    )
    process = start_python("-c", code, str(path))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def made_by_make(target: str, folder: Path, **variables: str) -> list[list[str]]:
    """Run a target whose command only says what it was called with; return that."""
    (folder / "queuelog").write_text('#!/bin/sh\nfor each in "$@"; do printf "%s\\n" "$each"; done; echo END\n')
    (folder / "queuelog").chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = ["make", "--silent", "--no-print-directory", "-C", str(ROOT), target, f"BIN={folder}", "READY="]
    given = [f"{name}={value}" for name, value in variables.items()]
    done = subprocess.run([*command, *given], env=environ, capture_output=True, text=True, check=True)
    return [each.splitlines() for each in done.stdout.removesuffix("END\n").split("END\n")]
