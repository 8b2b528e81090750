from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import traceback
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import Failed, address_options, json_option
from queuelog_client.cli.output import printable, show_json
from queuelog_client.cli.settings import connect
from queuelog_client.cli.values import NAMES
from queuelog_client.job import MAX_LEASE_SECONDS
from queuelog_client.shift import WorkerStuck, is_of_the_queue
from queuelog_client.tasks import Tasks
from queuelog_client.worker import Worker

if TYPE_CHECKING:
    from types import ModuleType

    from queuelog_client.client import QueueClient

logger = logging.getLogger("queuelog_client")


class _Printable(logging.Formatter):
    """Writes what handlers say of jobs, and their tracebacks, so that no terminal obeys it."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


@click.command()
@click.argument("module", metavar="MODULE[:NAME]")
@click.option("--concurrency", metavar="NUMBER", type=click.IntRange(1), help="Jobs at a time.  [default: 4]")
@click.option("--types", type=NAMES, help="Which of its tasks to work on, with commas.  [default: all]")
@click.option(
    "--lease-seconds",
    metavar="SECONDS",
    type=click.IntRange(1, MAX_LEASE_SECONDS),
    help="How long a worker that dies keeps its jobs.  [default: the queue's]",
)
@click.option(
    "--grace", metavar="SECONDS", type=click.FloatRange(0), help="From SIGTERM or Ctrl-C to the end.  [default: 25]"
)
@click.option("--until-empty", is_flag=True, help="End when no job is due and all have ended.")
@json_option
@address_options
def work(
    *,
    module: str,
    until_empty: bool,
    as_json: bool,
    profile: str | None,
    url: str | None,
    iam: bool,
    **given: Any,
) -> None:
    """Work on jobs with the tasks of a Python module.

    MODULE is a name that Python can import from here, or the path of a file. In it there is a Tasks or a Worker; if
    there are several, say which: jobs.py:tasks. A Worker brings its queue and settings along, unless options say
    others.
    """
    found = _found(*_imported(module))
    # After the import, for a module may have a way of its own to log.
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(_Printable("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[log])
    with ExitStack() as afterwards:
        # A module's own Worker and no copy of it, for a handler may call its stop.
        worker = found if isinstance(found, Worker) else None
        if worker is None or profile or url or iam:
            queue = afterwards.enter_context(connect(profile=profile, url=url, iam=iam))
            worker = _on(queue, found)
        for name, value in given.items():
            if value is not None:
                setattr(worker, name, value)
        try:
            types = worker.types
        except ValueError as error:
            raise click.UsageError(f"In {module} {error}.") from error
        logger.info("working on %s, %s at a time", ", ".join(types), worker.concurrency)
        if as_json:
            # What handlers print is no JSON.
            afterwards.enter_context(redirect_stdout(sys.stderr))
        try:
            tally = worker.run(until_empty=until_empty)
        except WorkerStuck as stuck:
            raise Failed(str(stuck)) from stuck
        except Exception as error:
            if not is_of_the_queue(error):
                raise
            # The core's errors are no classes of this package.
            raise Failed.because_of(error) from error
    if as_json:
        show_json(tally)
    else:
        click.echo(", ".join(f"{name} {number:,}" for name, number in asdict(tally).items()))


def _on(queue: QueueClient, found: Tasks | Worker) -> Worker:
    if isinstance(found, Tasks):
        return Worker(queue, found)
    found.queue = queue
    return found


def _imported(said: str) -> tuple[ModuleType, str, str | None]:
    """Return the module, what it is called, and the name in it that was asked for."""
    place, _, name = said.partition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") or "/" in place else _module(place)
    except click.UsageError:
        raise
    except Exception as error:
        kind, text = type(error).__name__, printable(str(error))
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise Failed(f"{place} can't be imported: {kind}: {text} ({at.filename}, line {at.lineno}).") from error
    return module, place, name or None


def _module(name: str) -> ModuleType:
    # As Python itself does with a script's folder.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise click.UsageError(f"There is no module {error.name} here nor where Python looks.") from None
        raise


def _file(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))
    # A file may be called email.py.
    name = path.stem if path.stem not in sys.modules else f"_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise click.UsageError(f"There is no Python file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _found(module: ModuleType, place: str, name: str | None) -> Tasks | Worker:
    """Return the Tasks or the Worker of a module; raise click.UsageError if it isn't clear which."""
    there = {name: each for name, each in vars(module).items() if isinstance(each, (Tasks, Worker))}
    if name is not None:
        if name not in there:
            raise click.UsageError(f"{place} has no Tasks or Worker {name}; it has: {', '.join(there) or 'none'}.")
        return there[name]
    # A Worker stands for its tasks too, and one object may have several names.
    owned = {id(each.tasks) for each in there.values() if isinstance(each, Worker)}
    distinct = {id(each): (name, each) for name, each in there.items() if id(each) not in owned}
    if not distinct:
        raise click.UsageError(f"{place} has no Tasks and no Worker.")
    if len(distinct) > 1:
        names = ", ".join(f"{place}:{name}" for name, _ in distinct.values())
        raise click.UsageError(f"{place} has several Tasks or Workers; say which: {names}.")
    ((_, only),) = distinct.values()
    return only
