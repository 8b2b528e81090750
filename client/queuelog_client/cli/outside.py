"""What looking after a queue needs besides its API: the time, AWS, the queue's core, somebody to ask."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import Failed

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG_SETTING = 2


class Given(click.ParamType):
    """A text that isn't empty: --types=$UNSET would otherwise open every type."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text without blanks around it."""
        if not value.strip():
            self.fail("is empty: give it a value or leave it out.", param, ctx)
        return value.strip()


@dataclass(frozen=True, slots=True)
class Outside:
    """The world around a command; click's context may hold another one as its object."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: Makes a client of an AWS service; None is boto3's way.
    client: Callable[..., Any] | None = None
    #: Where Linux says what is mounted.
    mounts: Path = Path("/proc/self/mountinfo")

    def aws(self, service: str, **options: Any) -> Any:
        """Return a client of an AWS service; raise botocore's errors."""
        if self.client is not None:
            return self.client(service, **options)
        import boto3  # noqa: PLC0415  an extra of this package

        client: Callable[..., Any] = boto3.Session().client
        return client(service, **options)


def outside() -> Outside:
    """Return what the command that runs was given."""
    found = click.get_current_context().find_object(Outside)
    return found or Outside()


def require_core() -> None:
    """Raise Failed unless the queue's core is installed."""
    try:
        import queuelog  # noqa: F401, PLC0415  most commands do without it
    except ImportError as error:
        message = "This needs the queue's core: pip install ./layers/queuelog, in a copy of the repository."
        raise Failed(message, exit_code=WRONG_SETTING) from error


def require_aws() -> None:
    """Raise Failed unless boto3 is installed."""
    try:
        import boto3  # noqa: F401, PLC0415  an extra of this package
    except ImportError as error:
        message = 'This needs boto3: pip install "./client[aws]", in a copy of the repository.'
        raise Failed(message, exit_code=WRONG_SETTING) from error


def confirm(question: str, *, yes: bool) -> None:
    """Go on if somebody at the terminal says so, or --yes did; raise click.Abort, click.UsageError."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is there to ask: say --yes.")
    click.confirm(question, abort=True, err=True)
