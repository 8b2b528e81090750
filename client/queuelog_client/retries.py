from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a pause without Retry-After grows from, and up to, in seconds.
_FIRST, _LONGEST = 0.25, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and for how long a call is repeated after a TryAgain.

    The pause is random, up to twice as long each time, and comes on top of what Retry-After asks for. A pause that
    would end after `seconds` is not begun. Clock, sleep and dice are for tests.
    """

    #: Repeats of one call, at the most.
    count: int = 6
    #: Counted from the call's beginning; one last try may take the read time-out longer.
    seconds: float = 30.0
    sleep: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random

    def pause(self, repeat: int, retry_after: float | None) -> float:
        """Return the seconds to wait before a repeat, of which the first is 0."""
        return (retry_after or 0.0) + self.random() * min(_LONGEST, math.ldexp(_FIRST, min(repeat, 10)))


NONE = Retries(count=0)
