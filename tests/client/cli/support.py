from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from queuelog_client.cli import commands

if TYPE_CHECKING:
    from tests.client.support import Stack


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


class Terminal(io.BytesIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


@dataclass
class Shell:
    """Runs commands in this process, as an admin of a stack unless told otherwise."""

    stack: Stack
    role: str = "admin"
    url: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: object, typed: Any = None) -> Result:
        environment = {
            "QUEUELOG_URL": self.url or self.stack.api.url,
            "QUEUELOG_API_KEY": self.stack.api.keys[self.role],
        }
        result = CliRunner(mix_stderr=False).invoke(
            commands,
            list(map(str, arguments)),
            prog_name="queuelog",
            input=typed,
            env=environment | self.environment,
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        # The API's functions run in this process, and print their metrics among what a command prints.
        lines = [line for line in result.stdout.splitlines(keepends=True) if not line.startswith('{"_aws"')]
        return Result(result.exit_code, "".join(lines), result.stderr)

    def says(self, *arguments: object, **options: Any) -> str:
        """Return what a command prints that has nothing to complain of."""
        result = self.run(*arguments, **options)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    def json(self, *arguments: object, **options: Any) -> Any:
        """Return the one document that a command prints."""
        return json.loads(self.says(*arguments, "--json", **options))

    def fails(self, code: int, *arguments: object, **options: Any) -> str:
        """Return what a command complains of that ends with this code."""
        result = self.run(*arguments, **options)
        assert result.exit_code == code, result
        return result.stderr
