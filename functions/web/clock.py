from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queuelog.clock import SystemClock

if TYPE_CHECKING:
    from queuelog.clock import Clock


def clock_of(context: Any) -> Clock:
    """Return the clock of an invocation: the machine's, unless a runner in this process has handed one along."""
    # Lambda's own context has no such attribute, and nothing that a caller sends can give it one.
    return getattr(context, "clock", None) or SystemClock()
