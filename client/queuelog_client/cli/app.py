"""What the commands share: the options that all have, and how a failure is told.

Exit codes: 0 done, 1 refused or a fault was found, 2 a wrong argument or setting, 75 it may work later (EX_TEMPFAIL of
sysexits.h), 130 Ctrl-C, 141 whoever read the output has closed it.
"""

from __future__ import annotations

import functools
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from queuelog_client.cli.output import printable
from queuelog_client.cli.settings import connect, profile_names
from queuelog_client.cli.values import PATH, TEXT
from queuelog_client.errors import NoAnswer, QueuelogError, TryAgain, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

AnyFunction = TypeVar("AnyFunction", bound="Callable[..., Any]")

AS_JSON = "queuelog_client.json"
FAILED = 1
TEMPORARY = 75
INTERRUPTED = 130
BROKEN_PIPE = 141


class Failed(click.ClickException):
    """What was asked for was not done; the message is a sentence, or several."""

    #: How to tell it.
    as_json = False

    def __init__(self, message: str, *, problem: str | None = None, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.problem = problem
        self.exit_code = exit_code

    @classmethod
    def because_of(cls, error: Exception, *, after: str = "") -> Failed:
        """Return what an error of the queue's is to a caller, with a sentence after it."""
        return cls(
            f"{sentence(error)} {after}".strip(),
            # The core's errors have none.
            problem=getattr(error, "slug", None),
            exit_code=TEMPORARY if isinstance(error, TryAgain) else FAILED,
        )

    def show(self, file: IO[Any] | None = None) -> None:
        """Tell it on the standard error, in JSON if that was asked for."""
        if self.as_json:
            click.echo(json.dumps({"error": self.message, "problem": self.problem}), file=file, err=True)
        else:
            click.echo(f"Error: {printable(self.message)}", file=file, err=True)


def sentence(error: Exception) -> str:
    """Return what an error says; where the queue has found faults, these alone."""
    faults = getattr(error, "faults", ())
    return f"{listed(faults)}." if faults else str(error)


class Commands(click.Group):
    """Tells the queue's refusals as sentences, and all that goes wrong in JSON where that was asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added, and a newcomer meets them."""
        return sorted(super().list_commands(ctx), key=list(self.commands).index)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments apart; raise Failed for wrong ones if JSON was asked for."""
        # Looked for here, since an argument can be wrong before its option is reached.
        ctx.meta[AS_JSON] = "--json" in args
        with _told(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise Failed for what the queue refused."""
        with _told(ctx):
            return super().invoke(ctx)


@contextmanager
def _told(context: click.Context) -> Iterator[None]:
    as_json = context.meta[AS_JSON]
    try:
        yield
    except Failed as failed:
        failed.as_json = as_json
        raise
    except QueuelogError as error:
        refused = Failed.because_of(error)
        refused.as_json = as_json
        raise refused from error
    except click.ClickException as error:
        if not as_json:
            raise
        wrong = Failed(error.format_message(), problem="usage", exit_code=error.exit_code)
        wrong.as_json = True
        raise wrong from error
    except click.Abort:
        refused = Failed("Nothing was done, for nobody said yes.")
        refused.as_json = as_json
        raise refused from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise click.exceptions.Exit(BROKEN_PIPE) from None


def json_option(command: AnyFunction) -> AnyFunction:
    """Add --json, as the argument as_json."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, for programs; errors too, on the standard error."
    )(command)


def address_options(command: AnyFunction) -> AnyFunction:
    """Add --profile, --url and --iam, which say what `connect` takes."""
    for option in (
        click.option("--iam", is_flag=True, help="Sign with AWS credentials in place of a key."),
        click.option("--url", metavar="URL", type=TEXT, help="The API's address.  [env: QUEUELOG_URL]"),
        click.option(
            "--profile",
            metavar="NAME",
            type=TEXT,
            shell_complete=_profiles_that_begin,
            help="A queue of profiles.toml.  [env: QUEUELOG_PROFILE]",
        ),
    ):
        command = option(command)
    return command


def queue_options(command: AnyFunction) -> Callable[..., Any]:
    """Add --profile, --url and --iam, and pass the client that they describe as the argument queue."""

    @address_options
    @functools.wraps(command)
    def with_queue(*, profile: str | None, url: str | None, iam: bool, **given: Any) -> Any:
        with connect(profile=profile, url=url, iam=iam) as queue:
            try:
                return command(queue=queue, **given)
            except NoAnswer as error:
                raise Failed.because_of(
                    error, after=f"Is {queue.url} its address? queuelog doctor looks for what is wrong."
                ) from error

    return with_queue


def file_option(command: AnyFunction) -> AnyFunction:
    """Add --file."""
    return click.option("--file", metavar="PATH", type=PATH, help="A queue's file, in place of a directory.")(command)


def data_dir_option(default: str | None = ".local") -> Callable[[AnyFunction], AnyFunction]:
    """Return what adds --data-dir, as the argument data_dir."""
    return click.option(
        "--data-dir",
        metavar="DIR",
        type=PATH,
        default=default,
        show_default=True,
        help="A local queue's directory: its file and its registry.",
    )


def stack_option(command: AnyFunction) -> AnyFunction:
    """Add --stack."""
    return click.option("--stack", metavar="NAME", type=TEXT, help="A deployed queue, by its stack's name.")(command)


def yes_option(command: AnyFunction) -> AnyFunction:
    """Add --yes."""
    return click.option("--yes", is_flag=True, help="Don't ask; needed where nobody can be asked, as in a pipe.")(
        command
    )


def is_given(name: str) -> bool:
    """Say whether an argument was on the command line, and is no default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def may_ask(*, yes: bool) -> bool:
    """Return whether to ask before it is done; raise click.UsageError without --yes where nobody can be asked."""
    # It is None where the standard input is closed.
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise click.UsageError("Nobody can be asked here whether that is meant: say --yes.")
    return not yes


def ask(question: str) -> None:
    """Go on if somebody at the terminal says yes; raise click.Abort."""
    click.confirm(question, abort=True, err=True)


def _profiles_that_begin(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in profile_names() if name.startswith(incomplete)]
