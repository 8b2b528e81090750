from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import json_option, queue_options
from queuelog_client.cli.output import (
    as_line,
    console,
    length,
    local_time,
    plain,
    printable,
    show,
    show_json,
    show_table,
    table,
    when,
)
from queuelog_client.cli.values import JOB_ID, TEXT, Priority
from queuelog_client.cli.watch import watch, watch_options
from queuelog_client.job import MAX_BATCH, Job, JobPriority, JobStatus, Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import RenderableType

    from queuelog_client.client import QueueClient
    from queuelog_client.job import Stats

#: Lines that a watched list leaves for its heading, its note and the prompt.
_OTHER_LINES = 4
#: A terminal with fewer columns has no room for all of a job's.
_NARROW = 60


@click.command()
@click.option("--status", type=click.Choice([each.value for each in JobStatus]), help="Only jobs with this status.")
@click.option("--type", metavar="TYPE", type=TEXT, help="Only jobs of this type.")
@click.option("--priority", type=Priority(), help="Only jobs of this priority.")
@click.option(
    "--order",
    type=click.Choice([each.value for each in Order]),
    default=Order.NEWEST.value,
    show_default=True,
    help="The newest first; or, with --status pending, as they are claimed once due.",
)
@click.option("--limit", metavar="NUMBER", type=click.IntRange(1), default=20, show_default=True, help="At the most.")
@click.option("--all", "everything", is_flag=True, help="However many there are; with --json, each on a line.")
@watch_options
@json_option
@queue_options
def jobs(
    *,
    queue: QueueClient,
    status: str | None,
    order: str,
    limit: int,
    everything: bool,
    watch_seconds: float | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """List jobs that you may see."""
    if order == Order.QUEUE and status != JobStatus.PENDING:
        raise click.UsageError("--order queue is for jobs that wait: say --status pending too.")
    if everything and watch_seconds is not None:
        raise click.UsageError("--watch shows as many as --limit says; it doesn't go with --all.")
    wanted |= {"status": None if status is None else JobStatus(status), "order": Order(order)}
    if watch_seconds is not None:
        once, is_drawn = queue.once(), sys.stdout.isatty() and not as_json

        def look() -> dict[str, Any]:
            most = max(min(limit, console().height - _OTHER_LINES), 1) if is_drawn else limit
            return _some(once, most, **wanted)

        watch(look, _jobs_drawn, seconds=watch_seconds, as_json=as_json)
        return
    if everything:
        found = queue.iterate(**wanted)
        if not as_json:
            show(_jobs_table(found))
            return
        for job in found:
            show_json(job)
        return
    page = _some(queue, limit, **wanted)
    if as_json:
        show_json(page)
        return
    show(_jobs_drawn(page))
    if page["more"]:
        click.echo("There are more: --limit or --all shows them.", err=True)


def _some(queue: QueueClient, limit: int, **wanted: Any) -> dict[str, Any]:
    found: list[Job] = []
    cursor = None
    while True:
        page = queue.list(limit=min(limit - len(found), MAX_BATCH), cursor=cursor, **wanted)
        found += page.jobs
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            return {"jobs": found, "more": cursor is not None}


def _jobs_drawn(page: dict[str, Any]) -> RenderableType:
    return _jobs_table(page["jobs"]) if page["jobs"] else "There are no such jobs."


def _jobs_table(found: Iterable[Job]) -> RenderableType:
    columns: dict[str, Callable[[Job], str]] = {
        "id": lambda job: str(job.id),
        "type": lambda job: job.type,
        "priority": lambda job: job.priority.label,
        "status": lambda job: job.status.value,
        "tries": lambda job: str(job.attempt),
        "created": lambda job: when(job.created_at),
        "about": _about,
    }
    if console().width < _NARROW:
        columns = {heading: columns[heading] for heading in ("id", "type", "status", "about")}
    rows = [[cell(job) for cell in columns.values()] for job in found]
    return table(list(columns), rows, cut="about")


def _about(job: Job) -> str:
    """Return what is worth to know of a job in its state, then what it is about."""
    said: list[str] = []
    if job.cancel_requested:
        said.append("to be cancelled")
    if job.status is JobStatus.PENDING and job.run_at > job.created_at:
        said.append(f"due {when(job.run_at)}")
    if job.status is JobStatus.RUNNING and job.worker_id is not None:
        said.append(f"held by {job.worker_id}")
    if job.error is not None or job.reason is not None:
        said.append(job.error or job.reason or "")
    if job.payload:
        said.append(as_line(job.payload))
    return "; ".join(said)


@click.command()
@click.argument("id", type=JOB_ID)
@json_option
@queue_options
def job(*, queue: QueueClient, id: int, as_json: bool) -> None:
    """Show all of a job, and to an admin its attempts."""
    found = queue.get(id)
    if as_json:
        show_json(found)
        return
    fields = plain(found)
    attempts = fields.pop("attempts")
    for name, value in fields.items():
        if value is not None:
            click.echo(f"{name:<18}{_said(getattr(found, name), value)}")
    if attempts:
        click.echo()
        show_table(
            ("attempt", "outcome", "worker", "began", "took", "error"),
            [
                (
                    str(each.attempt),
                    each.outcome,
                    each.worker_id,
                    local_time(each.claimed_at),
                    length((each.ended_at - each.claimed_at).total_seconds()),
                    each.error or "",
                )
                for each in found.attempts or ()
            ],
        )


def _said(found: Any, value: Any) -> str:
    if isinstance(value, str) and not isinstance(found, str):
        return f"{local_time(found)} ({when(found)})" if hasattr(found, "astimezone") else value
    return printable(value) if isinstance(value, str) else as_line(value)


@click.command()
@click.argument("id", type=JOB_ID)
@json_option
@queue_options
def explain(*, queue: QueueClient, id: int, as_json: bool) -> None:
    """Say why a job is where it is."""
    found = queue.explain(id)
    if as_json:
        show_json(found)
        return
    click.echo(f"Job {id} is {found.state}.")
    for reason in found.reasons:
        click.echo(printable(reason.detail))


@click.command()
@watch_options
@json_option
@queue_options
def stats(*, queue: QueueClient, watch_seconds: float | None, as_json: bool) -> None:
    """Count jobs, and say how the queue is doing."""
    if watch_seconds is not None:
        watch(queue.once().stats, _stats_drawn, seconds=watch_seconds, as_json=as_json)
    elif as_json:
        show_json(queue.stats())
    else:
        show(_stats_drawn(queue.stats()))


def _stats_drawn(found: Stats) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415  takes longer to import than a command takes

    statuses = list(JobStatus)
    counts = Counter[tuple[str, JobStatus]]()
    waiting = Counter[JobPriority]()
    for each in found.jobs:
        counts[each.type, each.status] += each.jobs
        if each.status is JobStatus.PENDING:
            waiting[each.priority] += each.jobs
    types = sorted({type for type, _ in counts})
    rows = [(type, *(f"{counts[type, status]:,}" for status in statuses)) for type in types]
    rows.append(("all", *(f"{sum(counts[type, status] for type in types):,}" for status in statuses)))
    return Group(
        table(("type", *(status.value for status in statuses)), rows, numbers=True),
        "",
        *_how_it_is_doing(found, waiting),
    )


def _how_it_is_doing(found: Stats, waiting: Counter[JobPriority]) -> Iterator[str]:
    if waiting:
        by_priority = (f"{priority.label} {waiting[priority]:,}" for priority in sorted(waiting, reverse=True))
        yield f"Pending by priority: {', '.join(by_priority)}"
    if found.running:
        yield f"Held: {', '.join(f'{printable(name)} {held:,}' for name, held in found.running.items())}"
    if found.oldest_due_seconds is not None:
        yield f"The oldest due job has waited for {length(found.oldest_due_seconds)}."
    else:
        yield "No job is due."
    if found.next_run_at is not None:
        yield f"The next one falls due {when(found.next_run_at)}, at {local_time(found.next_run_at)}."
