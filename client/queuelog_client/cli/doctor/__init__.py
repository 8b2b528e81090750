from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from queuelog_client.cli.app import FAILED, address_options, data_dir_option, file_option, json_option
from queuelog_client.cli.doctor.findings import Level
from queuelog_client.cli.output import counted, printable, show_json
from queuelog_client.cli.outside import outside, require_core
from queuelog_client.cli.settings import connect
from queuelog_client.cli.values import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuelog_client.cli.doctor.findings import Finding

COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}


@click.command()
@file_option
@data_dir_option(default=None)
@click.option(
    "--verbs",
    metavar="TYPE",
    type=TEXT,
    help="Send two jobs of this type through every verb, with an admin's key; choose one that nothing else uses.",
)
@json_option
@address_options
def doctor(
    *,
    file: Path | None,
    data_dir: Path | None,
    profile: str | None,
    url: str | None,
    iam: bool,
    verbs: str | None,
    as_json: bool,
) -> None:
    """Look for what is wrong with a queue, and say what to do.

    Without --file and --data-dir it calls the API, as the other commands do. Nothing is changed, but for --verbs. It
    exits with 1 if there is a fault.
    """
    if file and data_dir:
        raise click.UsageError("--file and --data-dir name two queues: give one.")
    findings: list[Finding] = []
    if file or data_dir:
        findings += _show(_look_at_files(file, data_dir), as_json=as_json)
    if profile or url or iam or verbs or not (file or data_dir):
        findings += _show(_look_at_api(profile, url, verbs, iam=iam), as_json=as_json)
    worst = _worst(findings)
    if as_json:
        show_json({"level": worst, "findings": findings})
    else:
        faults, warnings = (sum(each.level is level for each in findings) for level in (Level.FAULT, Level.WARNING))
        click.echo(f"\nFaults: {faults}, warnings: {warnings}, of {counted(len(findings), 'finding')}.")
    if worst is Level.FAULT:
        click.get_current_context().exit(FAILED)


def _look_at_files(file: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    require_core()
    from queuelog_client.cli.doctor.file_checks import check_file, check_registry  # noqa: PLC0415

    world = outside()
    yield from check_file(file or Path(data_dir or "") / "queue.db", world.now(), world.mounts)
    if data_dir:
        yield from check_registry(data_dir, world.now())


def _look_at_api(profile: str | None, url: str | None, verbs: str | None, *, iam: bool) -> Iterator[Finding]:
    from queuelog_client.cli.doctor.api_checks import check_api, check_verbs  # noqa: PLC0415

    with connect(profile=profile, url=url, iam=iam) as queue:
        is_admin = yield from check_api(queue, outside().now)
        if verbs:
            yield from check_verbs(queue, verbs, outside().now, is_admin=is_admin)


def _show(found: Iterator[Finding], *, as_json: bool) -> Iterator[Finding]:
    for finding in found:
        if not as_json:
            level = click.style(finding.level.ljust(7), fg=COLOURS[finding.level])
            click.echo(" · ".join([level, *(printable(text) for text in (finding.what, finding.advice) if text)]))
        yield finding


def _worst(findings: list[Finding]) -> Level:
    return max((each.level for each in findings), key=list(Level).index)
