from __future__ import annotations

import re
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import INTERRUPTED, Failed, json_option, queue_options, sentence
from queuelog_client.cli.lines import BadLine, Line, as_they_come, batches, parsed, read_lines
from queuelog_client.cli.output import counted, local_time, printable, show_json, when
from queuelog_client.cli.values import SECONDS, TEXT, Moment, Priority
from queuelog_client.errors import InvalidJob, QueuelogError, RequestRefused
from queuelog_client.job import MAX_RETRIES, JobPriority, NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from queuelog_client.client import QueueClient
    from queuelog_client.job import Enqueued

#: Of more bad lines than these only the number is told.
_MOST_TOLD = 20


@click.command()
@click.argument("type", required=False)
@click.argument("payload", required=False)
@click.option("--priority", type=Priority(), help="How soon it is done.  [default: medium]")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    type=TEXT,
    help="With the same one there is one job, however often you enqueue it.",
)
@click.option("--delay", type=SECONDS, help="How long from now it is due: 90, 15m, 2h, 7d.")
@click.option("--run-at", type=Moment(), help="When it is due: 2026-01-31T12:00, of your zone unless it names one.")
@click.option(
    "--max-retries",
    metavar="NUMBER",
    type=click.IntRange(0, MAX_RETRIES),
    help="How often it comes back.  [default: 3]",
)
@click.option("--backoff", type=SECONDS, help="What the waits between retries grow from.")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=TEXT,
    help="Enqueue a job for each line of JSON of a file, or of a pipe with -.",
)
@click.option(
    "--series",
    metavar="NAME",
    type=TEXT,
    help="With --from: lines that were enqueued in another series are enqueued once more.",
)
@json_option
@queue_options
def enqueue(
    *,
    queue: QueueClient,
    type: str | None,
    payload: str | None,
    source: str | None,
    series: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Enqueue a job: its type, and its payload as a JSON object.

    \b
    queuelog enqueue email '{"to": "ada@example.com"}' --delay 15m
    queuelog enqueue --from jobs.jsonl

    A line of a file is {"type": "email", "payload": {…}}, with any of priority, max_retries, idempotency_key, run_at,
    delay_seconds and backoff_seconds. When such a run was stopped, or lines were corrected, run it again: what is
    enqueued already is not enqueued twice.
    """
    if source is not None:
        if type is not None or any(value is not None for value in said.values()):
            raise click.UsageError("With --from the lines say what the jobs are: only --series and --json go with it.")
        _enqueue_lines(queue, source, series=series, as_json=as_json)
        return
    if type is None:
        raise click.UsageError("Say which TYPE of job, or --from which file.")
    if series is not None:
        raise click.UsageError("--series goes with --from; a single job has --idempotency-key.")
    answer = queue.enqueue(_new_job(type, payload, **said))
    if as_json:
        show_json(answer)
    else:
        click.echo(_told(answer))


def _new_job(
    type: str,
    payload: str | None,
    *,
    priority: JobPriority | None,
    idempotency_key: str | None,
    delay: int | None,
    run_at: datetime | None,
    max_retries: int | None,
    backoff: int | None,
) -> NewJob:
    try:
        return NewJob(
            type=type,
            payload=None if payload is None else parsed(payload),
            priority=priority,
            max_retries=max_retries,
            idempotency_key=idempotency_key,
            run_at=run_at,
            delay_seconds=delay,
            backoff_seconds=backoff,
        )
    except InvalidJob as invalid:
        raise click.UsageError(sentence(invalid)) from None
    except ValueError as error:
        raise click.UsageError(f"PAYLOAD must be a JSON object: {error}.") from None


def _told(answer: Enqueued) -> str:
    job = answer.job
    if answer.replayed:
        return f"Job {job.id} was there already, and is {job.status}."
    if job.run_at > job.created_at:
        return f"Job {job.id} is {job.status}, due at {local_time(job.run_at)} ({when(job.run_at)})."
    return f"Job {job.id} is {job.status}."


@dataclass(slots=True)
class _Outcome:
    enqueued: int = 0
    #: Lines whose jobs were there already.
    replayed: int = 0
    bad: list[BadLine] = field(default_factory=list)
    #: The first line of which it is not known that its job is there.
    stopped_before_line: int | None = None


def _enqueue_lines(queue: QueueClient, source: str, *, series: str | None, as_json: bool) -> None:
    total = None
    # What can be read twice is read to its end before anything is sent.
    if Path(source).is_file():
        with _opened(source) as content:
            total, bad = _checked(read_lines(content, series=series))
        if bad:
            _tell(_Outcome(bad=bad), as_json=as_json)
            raise Failed(
                f"{counted(len(bad), 'line')} of {total:,} can't be enqueued, and so nothing was: "
                "correct the file, and run the command again."
            )
    outcome = _Outcome()
    with _opened(source) as content, _progress(total, hidden=as_json) as advance:
        stopped = _send_all(queue, read_lines(content, series=series), outcome, advance)
    _tell(outcome, as_json=as_json)
    go_on = (
        f"Stopped before line {outcome.stopped_before_line}: run the same command with the same lines again, "
        "and it goes on there."
    )
    if isinstance(stopped, QueuelogError):
        raise Failed.because_of(stopped, after=go_on) from stopped
    if stopped is not None:
        raise Failed(go_on, exit_code=INTERRUPTED)
    if outcome.bad:
        raise Failed(
            f"{counted(len(outcome.bad), 'line')} could not be enqueued: put that right, and run the command again; "
            "the other lines are not enqueued twice."
        )


def _opened(source: str) -> AbstractContextManager[Iterable[bytes | None]]:
    try:
        return nullcontext(as_they_come(sys.stdin.fileno())) if source == "-" else Path(source).open("rb")
    except OSError as error:
        raise click.UsageError(f"{source} can't be read: {error.strerror}.") from error


def _checked(lines: Iterable[Line | BadLine | None]) -> tuple[int, list[BadLine]]:
    total, bad = 0, []
    for line in lines:
        total += line is not None
        if isinstance(line, BadLine):
            bad.append(line)
    return total, bad


def _send_all(
    queue: QueueClient, lines: Iterable[Line | BadLine | None], outcome: _Outcome, advance: Callable[[int], None]
) -> KeyboardInterrupt | QueuelogError | None:
    """Enqueue lines until they end or it is stopped; return what stopped it."""
    following = 1
    try:
        for good, bad in batches(lines):
            outcome.bad += bad
            following = min([*(line.number for line in good[:1]), *(line.line for line in bad[:1])])
            _send(queue, good, outcome)
            following = max([*(line.number for line in good[-1:]), *(line.line for line in bad[-1:])]) + 1
            advance(len(good) + len(bad))
    except (KeyboardInterrupt, QueuelogError) as error:
        outcome.stopped_before_line = following
        return error
    return None


def _send(queue: QueueClient, lines: list[Line], outcome: _Outcome) -> None:
    """Enqueue one batch, without those of its lines that the queue refuses."""
    while lines:
        try:
            answers = queue.enqueue_jobs([line.job for line in lines])
        except RequestRefused as refused:
            faults = _by_place(refused)
            if not faults:
                raise
            outcome.bad += [BadLine(lines[place].number, error) for place, error in sorted(faults.items())]
            lines = [line for place, line in enumerate(lines) if place not in faults]
        else:
            outcome.replayed += sum(answer.replayed for answer in answers)
            outcome.enqueued += sum(not answer.replayed for answer in answers)
            return


def _by_place(refused: RequestRefused) -> dict[int, str]:
    """Return what is wrong with which job of a batch."""
    found: dict[int, list[str]] = {}
    for fault in refused.faults:
        place = re.fullmatch(r"jobs\[(\d+)\]\.?(.*)", fault.field)
        if place is not None:
            found.setdefault(int(place[1]), []).append(f"{place[2]} {fault.message}".strip())
    return {place: "; ".join(errors) for place, errors in found.items()}


def _tell(outcome: _Outcome, *, as_json: bool) -> None:
    outcome.bad.sort()
    if as_json:
        show_json(outcome)
        return
    for bad in outcome.bad[:_MOST_TOLD]:
        click.echo(f"line {bad.line}: {printable(bad.error)}", err=True)
    if len(outcome.bad) > _MOST_TOLD:
        click.echo(f"and {counted(len(outcome.bad) - _MOST_TOLD, 'line')} more", err=True)
    if outcome.enqueued or outcome.replayed or not outcome.bad:
        there = f"; {outcome.replayed:,} were there already" if outcome.replayed else ""
        hint = " (with --series they are enqueued once more)" if there and not outcome.enqueued else ""
        click.echo(f"Enqueued {counted(outcome.enqueued, 'job')}{there}{hint}.")


@contextmanager
def _progress(total: int | None, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    if hidden or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  takes longer to import than a command takes
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("Enqueueing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda lines: progress.advance(task, lines)
