"""The command line: `queuelog COMMAND`, for people and, with --json, for programs."""

from __future__ import annotations

import click

from queuelog_client.cli import doctor, files, keys, look
from queuelog_client.cli.app import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="queuelog-client")
def commands() -> None:
    """Enqueue jobs, look at them, work on them, and look after the queue.

    Which queue is said by QUEUELOG_URL and QUEUELOG_API_KEY, or by a profile in ~/.config/queuelog/profiles.toml.
    """


commands.add_command(look.explain)
commands.add_command(keys.keys)
commands.add_command(doctor.doctor)
commands.add_command(files.backup)
commands.add_command(files.restore)


def main() -> None:
    """Run the command that the arguments name, and exit."""
    commands(prog_name="queuelog")
