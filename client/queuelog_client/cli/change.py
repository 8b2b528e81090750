from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.app import Failed, ask, json_option, may_ask, queue_options, sentence, yes_option
from queuelog_client.cli.output import counted, printable, show_json
from queuelog_client.cli.values import JOB_ID, TEXT, Moment
from queuelog_client.errors import RequestRefused, TryAgain
from queuelog_client.job import MAX_RETRY_BATCH, JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queuelog_client.client import QueueClient
    from queuelog_client.job import Job

_MOMENT = Moment(or_how_long="ago")


@click.command()
@click.argument("ids", metavar="ID...", type=JOB_ID, nargs=-1, required=True)
@json_option
@queue_options
def cancel(*, queue: QueueClient, ids: Sequence[int], as_json: bool) -> None:
    """Cancel pending jobs; the workers of running ones are told."""
    _one_by_one(queue.cancel, ids, as_json=as_json)


@click.command()
@click.argument("ids", metavar="[ID]...", type=JOB_ID, nargs=-1)
@click.option(
    "--status",
    type=click.Choice([JobStatus.FAILED.value, JobStatus.CANCELLED.value]),
    help="In place of IDs: all jobs with this status.",
)
@click.option("--type", metavar="TYPE", type=TEXT, help="Of these, only jobs of this type.")
@click.option("--error-contains", type=TEXT, help="Of these, only jobs whose last error has this text.")
@click.option("--failed-after", type=_MOMENT, help="Ended since: 2h, 2026-01-31T12:00, 2026-01-31T12:00Z.")
@click.option("--failed-before", type=_MOMENT, help="Ended before.")
@click.option("--limit", metavar="NUMBER", type=click.IntRange(1, MAX_RETRY_BATCH), help="At the most.  [default: 100]")
@click.option("--dry-run", is_flag=True, help="Only say which jobs these are.")
@yes_option
@json_option
@queue_options
def retry(*, queue: QueueClient, ids: Sequence[int], dry_run: bool, yes: bool, as_json: bool, **given: Any) -> None:
    """Put failed or cancelled jobs back.

    These, or those that pass --status and what else is said; of many those that ended first are taken. Unless you
    have named them yourself you are asked first.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    if ids:
        if wanted or dry_run:
            raise click.UsageError("Say which jobs by their ids, or by --status and the like, and not by both.")
        _one_by_one(queue.retry, ids, as_json=as_json)
        return
    if "status" not in wanted:
        raise click.UsageError("Say which jobs: their ids, or --status failed, or --status cancelled.")
    wanted["status"] = JobStatus(wanted["status"])
    if not dry_run and may_ask(yes=yes):
        found = queue.retry_jobs(**wanted, dry_run=True)
        if found:
            ask(f"Retry {counted(len(found), 'job')} ({_listed(found)})?")
    _retry_passing(queue, wanted, dry_run=dry_run, as_json=as_json)


def _retry_passing(queue: QueueClient, wanted: dict[str, Any], *, dry_run: bool, as_json: bool) -> None:
    try:
        ids = queue.retry_jobs(**wanted, dry_run=dry_run)
    except TryAgain as error:
        if error.nothing_done or dry_run:
            raise
        raise Failed.because_of(
            error, after="It may have been done all the same, and a second run would retry others: look first."
        ) from error
    if as_json:
        show_json({"ids": ids, "count": len(ids), "dry_run": dry_run})
        return
    did = "Would retry" if dry_run else "Retried"
    click.echo(f"{did} {counted(len(ids), 'job')}{f': {_listed(ids)}' if ids else ''}.")
    if len(ids) == wanted.get("limit", 100):
        click.echo(f"There may be more: --limit takes up to {MAX_RETRY_BATCH:,} at a time.", err=True)


def _listed(ids: Sequence[int]) -> str:
    first = ", ".join(map(str, ids[:10]))
    return f"{first}, …, {ids[-1]}" if len(ids) > 10 else first


def _one_by_one(verb: Callable[[int], Job], ids: Sequence[int], *, as_json: bool) -> None:
    """Do it with each job, also when one is refused; raise Failed at the end."""
    done: list[Job] = []
    refused: list[dict[str, Any]] = []
    stopped: TryAgain | None = None
    for id in dict.fromkeys(ids):
        try:
            job = verb(id)
        except RequestRefused as error:
            refused.append({"id": id, "error": sentence(error), "problem": error.slug})
            continue
        except TryAgain as error:
            stopped = error
            break
        done.append(job)
    if as_json:
        show_json({"jobs": done, "refused": refused})
    else:
        for job in done:
            asked = ", and its worker is asked to stop" if job.cancel_requested else ""
            click.echo(f"Job {job.id} is {job.status}{asked}.")
        for each in refused:
            click.echo(f"Job {each['id']}: {printable(each['error'])}", err=True)
    if stopped is not None:
        left = [
            id for id in dict.fromkeys(ids) if id not in {job.id for job in done} | {each["id"] for each in refused}
        ]
        raise Failed.because_of(stopped, after=f"Left to do: {', '.join(map(str, left))}.") from stopped
    if refused:
        raise Failed(f"{counted(len(refused), 'job')} of {len(refused) + len(done)} could not be changed.")
