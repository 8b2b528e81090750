"""What EventBridge does in an account: call functions at the rates that the template gives them."""

from __future__ import annotations

import json
import re
import threading
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from local.errors import CannotStartError
from local.functions import ACCOUNT, REGION, FunctionFailedError
from queuelog import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from samcli.lib.providers.provider import Function

    from local.functions import Functions
    from queuelog import Clock

# Here a function that comes by itself keeps requests waiting. What it does not do in this time it does the next time;
# the sweep stops when it has five seconds left.
_SECONDS = 6.0


class Schedule(NamedTuple):
    """One event of the template: which function to call, and how often."""

    function: str
    event: str
    every: timedelta


def schedules_of(functions: Sequence[Function], missing: Collection[str]) -> list[Schedule]:
    """Return the schedules of functions that need none of the `missing` variables; raise CannotStartError."""
    return [
        Schedule(str(function.name), name, _rate(str(event["Properties"]["ScheduleExpression"])))
        for function in functions
        if not set(missing).intersection((function.environment or {}).get("Variables") or {})
        for name, event in dict(function.events or {}).items()
        if event["Type"] == "ScheduleV2"
    ]


class Scheduler:
    """Calls the functions of some schedules, each in a thread of its own: at the start, and then at its rate."""

    def __init__(
        self,
        functions: Functions,
        schedules: Sequence[Schedule],
        clock: Clock | None,
        report: Callable[[str], None],
    ) -> None:
        self._functions = functions
        self._schedules = schedules
        self._clock = clock or SystemClock()
        self._report = report
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(schedule,), name=schedule.function) for schedule in schedules
        ]

    def run(self) -> None:
        """Call each function once, now; raise FunctionFailedError."""
        for schedule in self._schedules:
            self._call(schedule)

    def start(self) -> None:
        """Begin to call them."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Call no more, and return once none is running; harmless when it was never started."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _repeat(self, schedule: Schedule) -> None:
        while not self._stopping.is_set():
            try:
                self._call(schedule)
            except FunctionFailedError:
                self._report(f"{schedule.function} failed; it is called again in {schedule.every}.")
            self._stopping.wait(schedule.every.total_seconds())

    def _call(self, schedule: Schedule) -> None:
        event = json.dumps(scheduled_event(schedule, self._clock.now()))
        self._functions.call(schedule.function, event, seconds=_SECONDS)


def scheduled_event(schedule: Schedule, now: datetime) -> dict[str, object]:
    """Return what EventBridge Scheduler sends when its schedule names no input of its own."""
    name = f"{schedule.function}{schedule.event}"
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": ACCOUNT,
        "time": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "region": REGION,
        "resources": [f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/{name}"],
        "detail": "{}",
    }


def _rate(expression: str) -> timedelta:
    match = re.fullmatch(r"rate\(([1-9][0-9]*) (minute|hour|day)s?\)", expression)
    if match is None:
        raise CannotStartError(f"template.yaml has the schedule {expression}; here only a rate is understood.")
    return timedelta(**{f"{match[2]}s": int(match[1])})
