"""What the demo shows: live in a terminal, line by line anywhere else, and the tables at its end."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from local.demo.account import ENDED, Outcome, Seen
from local.demo.crew import Death
from queuelog_client import JobPriority, JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self, TextIO

    from rich.console import RenderableType

    from local.demo.account import Account

WIDTH = 80
_EVENTS = 8
_STYLES = {
    JobStatus.PENDING: "dim",
    JobStatus.RUNNING: "cyan",
    JobStatus.COMPLETED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "yellow",
}
_PRIORITIES = sorted(JobPriority, reverse=True)


@dataclass(slots=True, kw_only=True)
class Scene:
    """How things stand."""

    total: int
    jobs: Counter[tuple[JobPriority, JobStatus]] = field(default_factory=Counter)
    #: The jobs that each worker is in the middle of, by its number.
    workers: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def count(self, *statuses: JobStatus, priority: JobPriority | None = None) -> int:
        """Return how many jobs are in one of these states."""
        return sum(
            number
            for (of, status), number in self.jobs.items()
            if status in statuses and (priority is None or of is priority)
        )


class Result(NamedTuple):
    """What there is to report."""

    account: Account
    deaths: Mapping[Death, int]
    repeated: int
    seconds: float


class View:
    """Where the demo is shown, as a context manager."""

    def __init__(self, stream: TextIO) -> None:
        self.console = Console(file=stream, highlight=False)
        self.console.width = min(WIDTH, self.console.width) if self.console.is_terminal else WIDTH
        self._began = time.monotonic()
        self._live: Live | None = None
        self._events: deque[Text] = deque(maxlen=_EVENTS)
        self._quarters = 0
        self._scene: Scene | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            # What the functions print goes to their log, and must not be caught for the screen.
            self._live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str, style: str = "") -> None:
        """Tell what has just happened."""
        event = Text.assemble((f"{time.monotonic() - self._began:5.1f} s  ", "dim"), (text, style))
        if self._live is None:
            self.console.print(event)
        else:
            event.truncate(self.console.width, overflow="ellipsis")
            self._events.append(event)
            self._live.update(self._picture(), refresh=True)

    def show(self, scene: Scene) -> None:
        """Show how things stand."""
        self._scene = scene
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            return
        ended = scene.count(*ENDED)
        if (quarters := 4 * ended // scene.total) > self._quarters:
            self._quarters = quarters
            self.say(f"{ended} of {scene.total} jobs have ended")

    def _picture(self) -> RenderableType:
        scene = self._scene
        if scene is None:
            return Group(*self._events)
        return Group(
            Text(f"Queuelog: {scene.total} jobs, {len(scene.workers)} workers\n", "bold"),
            _bars(scene),
            Text(),
            _statuses(scene),
            Text(),
            *(_worker(number, jobs) for number, jobs in scene.workers.items()),
            Text(),
            *self._events,
        )


def _bars(scene: Scene) -> Table:
    bars = Table.grid(padding=(0, 2, 0, 0))
    bars.add_column(width=8)
    bars.add_column(width=50)
    bars.add_column(justify="right")
    for priority in _PRIORITIES:
        ended, total = scene.count(*ENDED, priority=priority), scene.count(*JobStatus, priority=priority)
        bars.add_row(
            priority.label,
            # A bar without an end swings to and fro.
            ProgressBar(total=max(total, 1), completed=ended, complete_style="cyan", finished_style="green"),
            f"{ended}/{total}",
        )
    return bars


def _statuses(scene: Scene) -> Text:
    return Text("   ").join(
        Text.assemble(f"{status} ", (f"{scene.count(status):3}", _STYLES[status])) for status in JobStatus
    )


def _worker(number: int, jobs: Sequence[int]) -> Text:
    return Text.assemble(f"worker {number}  ", (_listed(jobs) if jobs else "no job", "cyan" if jobs else "dim"))


def _listed(jobs: Sequence[int]) -> str:
    return f"job{'s' * (len(jobs) > 1)} {', '.join(map(str, jobs))}"


def in_the_middle_of(jobs: Sequence[int]) -> str:
    """Return what a worker was at, as the end of a sentence."""
    return f"in the middle of {_listed(jobs)}" if jobs else "while it had no job in hand"


def report(console: Console, result: Result) -> bool:
    """Print the tables; say and return whether they add up."""
    account, seconds = result.account, result.seconds
    jobs, attempts = account.jobs.total(), account.attempts.total()
    console.print(_jobs_table(account))
    console.print()
    console.print("Attempts, by the queue's history (down) and by the workers' notes (across):")
    console.print(_attempts_table(account))
    console.print()
    died = ", ".join(f"{result.deaths[death]} {death}" for death in Death if death in result.deaths)
    again = account.attempts[Outcome.LEASE_EXPIRED, Seen.DID]
    console.print(f"Workers  {died}: each was replaced")
    console.print(f"Repeats  {result.repeated} jobs were enqueued twice under one idempotency key, and added once")
    console.print(f"Again    {again} times a job was done again, as no word of it had come in time")
    console.print(
        f"Speed    {jobs} jobs and {attempts} attempts in {seconds:.1f} s: {jobs / seconds:.1f} jobs a second"
    )
    console.print()
    if not account.faults:
        console.print(
            f"It adds up: {jobs} jobs enqueued, each ended once and as planned, none lost.", style="bold green"
        )
        return True
    console.print("It does not add up:", style="bold red")
    for fault in account.faults:
        console.print(f"  {fault}", style="red", soft_wrap=True)
    return False


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.HORIZONTALS, pad_edge=False, header_style="bold")
    table.add_column(first, min_width=13)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _cells(*numbers: int) -> list[str]:
    return [str(number) if number else "" for number in numbers]


def _jobs_table(account: Account) -> Table:
    table = _table("Jobs", *ENDED, "total", "median wait")
    for priority in _PRIORITIES:
        counts = [account.jobs[priority, status] for status in ENDED]
        wait = f"{account.waits[priority]:.1f} s" if priority in account.waits else ""
        table.add_row(priority.label, *_cells(*counts, sum(counts)), wait)
    table.add_section()
    sums = [sum(account.jobs[priority, status] for priority in JobPriority) for status in ENDED]
    table.add_row("total", *_cells(*sums, sum(sums)))
    table.add_row("planned", *_cells(*(account.planned[status] for status in ENDED), account.planned.total()))
    return table


def _attempts_table(account: Account) -> Table:
    """Return the attempts by what the queue's history says of them, and across by what the workers noted."""
    table = _table("Attempts", *Seen, "total")
    for outcome in Outcome:
        counts = [account.attempts[outcome, seen] for seen in Seen]
        table.add_row(outcome.replace("_", " "), *_cells(*counts, sum(counts)))
    table.add_section()
    sums = [sum(account.attempts[outcome, seen] for outcome in Outcome) for seen in Seen]
    table.add_row("total", *_cells(*sums, sum(sums)))
    return table
