"""Times things against each other within one run: only their ratio survives another machine, or more load on it."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: What is timed, by name; called once a round, in this order.
    Steps = Mapping[str, Callable[[], object]]

#: Seconds after which there are no more rounds: on a slow disk fewer have to do.
LIMIT = 25


class Times:
    """Seconds of every round, by contender and step."""

    def __init__(self, seconds: Mapping[str, Mapping[str, list[float]]]) -> None:
        self._seconds = seconds
        self.steps = list(next(iter(seconds.values())))
        #: How many there was time for.
        self.rounds = len(next(iter(seconds.values()))[self.steps[0]])

    def median(self, contender: str, *steps: str) -> float:
        """Return the median in seconds, of a step or of several together."""
        return median(self._rounds(contender, steps))

    def ratio(self, contender: str, other: str, *steps: str) -> float:
        """Return how many times as long as the other one a contender takes: the median of the rounds' ratios."""
        pairs = zip(self._rounds(contender, steps), self._rounds(other, steps), strict=True)
        return median(mine / theirs for mine, theirs in pairs)

    def difference(self, contender: str, other: str, *steps: str) -> float:
        """Return how many seconds more than the other one a contender takes: the median of the rounds' differences."""
        pairs = zip(self._rounds(contender, steps), self._rounds(other, steps), strict=True)
        return median(mine - theirs for mine, theirs in pairs)

    def _rounds(self, contender: str, steps: Sequence[str]) -> list[float]:
        return [sum(each) for each in zip(*(self._seconds[contender][step] for step in steps), strict=True)]


def interleaved(contenders: Mapping[str, Steps], *, rounds: int, warm_up: int, limit: float = LIMIT) -> Times:
    """Time every contender's every step once a round; the warm-up rounds before that are thrown away.

    A step of one contender runs right beside the same step of the others, so that a slow moment hits all; in a new
    order each time, so that none always comes first, when the processor's caches are still cold from a wait.
    """
    names = list(contenders)
    steps = list(contenders[names[0]])
    seconds: dict[str, dict[str, list[float]]] = {name: {step: [] for step in steps} for name in names}
    stop = time.monotonic() + limit
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
