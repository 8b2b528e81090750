from __future__ import annotations

from typing import TYPE_CHECKING

import click

from queuelog_client.cli.app import Failed, data_dir_option, file_option, is_given, json_option, stack_option
from queuelog_client.cli.output import counted, show_json
from queuelog_client.cli.outside import outside, require_aws, require_core
from queuelog_client.cli.values import PATH, TEXT

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("copy", required=False, type=PATH)
@file_option
@data_dir_option()
@stack_option
@json_option
def backup(*, copy: Path | None, file: Path | None, data_dir: Path, stack: str | None, as_json: bool) -> None:
    """Copy a queue into the file COPY while others use it.

    The copy is of one moment, is checked, and can be opened with any SQLite. Nothing is overwritten. With --stack, and
    without COPY, a stack backs itself up into its bucket, now.
    """
    require_core()
    from queuelog_client.cli import backups  # noqa: PLC0415

    if bool(stack) == bool(copy):
        raise click.UsageError("Say where to: a file for a local queue's copy, or --stack for a backup in its bucket.")
    if stack and (file or is_given("data_dir")):
        raise click.UsageError("--stack names a queue, and --file or --data-dir another one: give one.")
    try:
        if stack:
            require_aws()
            stored = backups.copy_stack(stack, outside().aws)
            if as_json:
                show_json(stored)
            else:
                click.echo(f"{stored.address} holds {stored.bytes:,} bytes, SHA-256 {stored.sha256}.")
        elif copy:
            jobs = backups.copy_file(database_of(file, data_dir), copy)
            if as_json:
                show_json({"copy": str(copy), "jobs": jobs})
            else:
                click.echo(f"{copy} holds {counted(jobs, 'job')}.")
    except backups.NotCopiedError as error:
        raise Failed(str(error)) from error


@click.command()
@click.argument("source", type=TEXT)
@file_option
@data_dir_option()
@json_option
def restore(*, source: str, file: Path | None, data_dir: Path, as_json: bool) -> None:
    """Put a backup in the place of a queue that nobody uses.

    SOURCE is a file, even one in use, or s3://bucket/key. It is checked first, and what was there before is kept.
    """
    require_core()
    from queuelog_client.cli import backups  # noqa: PLC0415

    target = database_of(file, data_dir)
    if source.startswith("s3://"):
        require_aws()
    try:
        restored = backups.restore(source, target, outside().aws)
    except backups.NotRestoredError as error:
        raise Failed(str(error)) from error
    if as_json:
        kept = restored.kept and str(restored.kept)
        show_json({"file": str(target), "jobs": restored.jobs, "kept": kept})
        return
    click.echo(f"{target} now holds the {counted(restored.jobs, 'job')} of {source}.")
    if restored.kept is not None:
        click.echo(f"What was there before is in {restored.kept}.")


def database_of(file: Path | None, data_dir: Path) -> Path:
    """Return the queue's file that the options name; raise click.UsageError if they name two."""
    if file is None:
        return data_dir / "queue.db"
    if is_given("data_dir"):
        raise click.UsageError("--file and --data-dir name two queues: give one.")
    return file
