"""The command line: `queuelog COMMAND`, for people and, with --json, for programs.

A command is in the module of its name, but for jobs, job, explain and stats, which look; cancel and retry, which
change; and backup and restore, which are of files. What they all have is in app, values and output.
"""

from __future__ import annotations

import io
import sys

import click

from queuelog_client.cli import change, completion, doctor, enqueue, files, keys, look, work
from queuelog_client.cli.app import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="queuelog-client")
def commands() -> None:
    """Enqueue jobs, look at them, work on them, and look after the queue.

    Which queue is said by QUEUELOG_URL and QUEUELOG_API_KEY, or by a profile in ~/.config/queuelog/profiles.toml. What
    a command takes is said by queuelog COMMAND --help.
    """


for command in (
    enqueue.enqueue,
    look.jobs,
    look.job,
    look.explain,
    change.cancel,
    change.retry,
    look.stats,
    work.work,
    keys.keys,
    files.backup,
    files.restore,
    doctor.doctor,
    completion.completion,
):
    commands.add_command(command)


def main() -> None:
    """Run the command that the arguments name, and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without UTF-8 can't show everything.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    commands(prog_name="queuelog")
