"""Times things against each other within one run: only their ratio survives another machine, or more load on it."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: What is timed, by name; called once a round, in this order.
    Steps = Mapping[str, Callable[[], object]]

#: Seconds after which there are no more rounds: on a slow disk fewer have to do.
LIMIT = 25


class Times:
    """Seconds of every round, by contender and step."""

    def __init__(self, seconds: Mapping[str, Mapping[str, list[float]]]) -> None:
        self._seconds = seconds
        self.steps = list(next(iter(seconds.values())))

    def median(self, contender: str, step: str) -> float:
        """Return the median in seconds."""
        return median(self._seconds[contender][step])

    def ratio(self, contender: str, other: str, step: str) -> float:
        """Return how many times as long as the other one a contender takes: the median of the rounds' ratios."""
        pairs = zip(self._seconds[contender][step], self._seconds[other][step], strict=True)
        return median(mine / theirs for mine, theirs in pairs)

    def difference(self, contender: str, other: str, step: str) -> float:
        """Return how many seconds more than the other one a contender takes: the median of the rounds' differences."""
        pairs = zip(self._seconds[contender][step], self._seconds[other][step], strict=True)
        return median(mine - theirs for mine, theirs in pairs)


def interleaved(contenders: Mapping[str, Steps], *, rounds: int, warm_up: int) -> Times:
    """Time every contender's every step once a round; the warm-up rounds before that are thrown away.

    A step of one contender runs right beside the same step of the others, so that a slow moment hits all; in a new
    order each time, so that none always comes first, when the processor's caches are still cold from a wait.
    """
    names = list(contenders)
    steps = list(contenders[names[0]])
    seconds: dict[str, dict[str, list[float]]] = {name: {step: [] for step in steps} for name in names}
    stop = time.monotonic() + LIMIT
    for number in range(-warm_up, rounds):
        if number > 0 and time.monotonic() > stop:
            break
        for step in steps:
            for name in random.sample(names, len(names)):
                started = time.perf_counter()
                contenders[name][step]()
                elapsed = time.perf_counter() - started
                if number >= 0:
                    seconds[name][step].append(elapsed)
    return Times(seconds)
