from __future__ import annotations

from typing import TYPE_CHECKING

import click

from queuelog_client.cli.app import json_option, queue_options
from queuelog_client.cli.output import show_json

if TYPE_CHECKING:
    from queuelog_client.client import QueueClient


@click.command()
@click.argument("id", type=click.IntRange(1))
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
        click.echo(reason.detail)
