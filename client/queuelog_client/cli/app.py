"""What the commands share: the options that all have, and how a failure is told.

Exit codes: 0 done, 1 refused or a fault was found, 2 a wrong argument or setting, 75 it may work later (EX_TEMPFAIL of
sysexits.h).
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar

import click

from queuelog_client.cli.settings import connect
from queuelog_client.errors import QueuelogError, TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

AnyFunction = TypeVar("AnyFunction", bound="Callable[..., Any]")

AS_JSON = "queuelog_client.json"
FAILED = 1
TEMPORARY = 75


class Failed(click.ClickException):
    """What was asked for was not done; the message is a sentence, or several."""

    def __init__(self, message: str, *, problem: str | None = None, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.problem = problem
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        """Tell it on the standard error, in JSON if that was asked for."""
        context = click.get_current_context(silent=True)
        if context is None or not context.meta.get(AS_JSON):
            super().show(file)
            return
        click.echo(json.dumps({"error": self.message, "problem": self.problem}), file=file, err=True)


class Commands(click.Group):
    """Tells the queue's refusals as sentences."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise Failed for what the queue refused."""
        try:
            return super().invoke(ctx)
        except QueuelogError as error:
            code = TEMPORARY if isinstance(error, TryAgain) else FAILED
            raise Failed(str(error), problem=error.slug, exit_code=code) from error


def json_option(command: AnyFunction) -> AnyFunction:
    """Add --json, as the argument as_json."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001  click calls it so
        context.meta[AS_JSON] = value
        return value

    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=remember,
        help="Print JSON, for programs; errors too, on the standard error.",
    )(command)


def queue_options(command: AnyFunction) -> Callable[..., Any]:
    """Add --profile, --url and --iam, and pass the client that they describe as the argument queue."""

    @click.option("--profile", metavar="NAME", help="A queue of profiles.toml.  [env: QUEUELOG_PROFILE]")
    @click.option("--url", help="The API's address.  [env: QUEUELOG_URL]")
    @click.option("--iam", is_flag=True, help="Sign with AWS credentials in place of a key.")
    @functools.wraps(command)
    def with_queue(*, profile: str | None, url: str | None, iam: bool, **given: Any) -> Any:
        with connect(profile=profile, url=url, iam=iam) as queue:
            return command(queue=queue, **given)

    return with_queue
