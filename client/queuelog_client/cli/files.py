from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from queuelog_client.cli.app import Failed, json_option
from queuelog_client.cli.output import show_json
from queuelog_client.cli.outside import Given, outside, require_aws, require_core

A_PATH = click.Path(path_type=Path)
data_dir_option = click.option(
    "--data-dir", metavar="DIR", type=A_PATH, default=".local", show_default=True, help="A local queue's directory."
)
file_option = click.option("--file", metavar="PATH", type=A_PATH, help="A queue's file, in place of a directory.")


@click.command()
@click.argument("copy", required=False, type=A_PATH)
@file_option
@data_dir_option
@click.option("--stack", metavar="NAME", type=Given(), help="Let a deployed queue back itself up into its bucket, now.")
@json_option
def backup(*, copy: Path | None, file: Path | None, data_dir: Path, stack: str | None, as_json: bool) -> None:
    """Copy a queue into the file COPY while others use it, or let a stack make one of its backups.

    The copy is of one moment, is checked, and can be opened with any SQLite. Nothing is overwritten.
    """
    require_core()
    from queuelog_client.cli import backups  # noqa: PLC0415

    if bool(stack) == bool(copy):
        raise click.UsageError("Say where to: a file for a local queue's copy, or --stack for a backup in its bucket.")
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
                click.echo(f"{copy} holds {jobs} jobs.")
    except backups.NotCopiedError as error:
        raise Failed(str(error)) from error


@click.command()
@click.argument("source", type=Given())
@file_option
@data_dir_option
@json_option
def restore(*, source: str, file: Path | None, data_dir: Path, as_json: bool) -> None:
    """Put a backup in the place of a queue that nobody uses; what was there before is kept.

    SOURCE is a file, even one in use, or s3://bucket/key. It is checked first.
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
    click.echo(f"{target} now holds the {restored.jobs} jobs of {source}.")
    if restored.kept is not None:
        click.echo(f"What was there before is in {restored.kept}.")


def database_of(file: Path | None, data_dir: Path) -> Path:
    """Return the queue's file that the options name; raise click.UsageError if they name two."""
    if file is None:
        return data_dir / "queue.db"
    if click.get_current_context().get_parameter_source("data_dir") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--file and --data-dir name two queues: give one.")
    return file
