from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from click.testing import CliRunner

from queuelog_client.cli import commands
from queuelog_client.cli.outside import Outside
from tests.support import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


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
    *arguments: object, now: Callable[[], datetime] = lambda: START, client: Callable[..., Any] | None = None
) -> Ran:
    """Run the command line in this process, with a clock and an AWS of the test's own."""
    runner = CliRunner(mix_stderr=False)
    world = Outside(now=now, client=client)
    result = runner.invoke(commands, [*map(str, arguments)], obj=world, prog_name="queuelog", catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr)
