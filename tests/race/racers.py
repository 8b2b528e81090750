"""How a test starts the processes of a race (caller.py), and speaks with each."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROCESSES = 8


class Caller:
    """One process of a race, by the pipes that lead to it and from it."""

    def __init__(self) -> None:
        (self.its_input, ours), (theirs, self.its_output) = os.pipe(), os.pipe()
        self.input, self.output = os.fdopen(ours, "w"), os.fdopen(theirs)

    def tell(self, path: Path, word: str) -> None:
        self.input.write(f"{path} {word}\n")
        self.input.flush()

    def line(self) -> str:
        line = self.output.readline()
        assert line.endswith("\n"), "the process ended"
        return line.rstrip("\n")


@contextmanager
def callers(action: str, network: bool, processes: int = PROCESSES, name: str = "process-{}") -> Iterator[list[Caller]]:
    with ExitStack() as ending:
        found = [Caller() for _ in range(processes)]
        for caller in found:
            ending.callback(caller.output.close)
        pipes = [end for caller in found for end in (caller.its_input, caller.its_output)]
        racers = [f"{name.format(number)}:{each.its_input}:{each.its_output}" for number, each in enumerate(found)]
        arguments = [action, "network" if network else "local", *racers]
        process = start_python("-m", "tests.race.caller", *arguments, pass_fds=pipes)
        ending.callback(process.communicate)
        for caller in found:
            ending.callback(caller.input.close)
        for end in pipes:
            os.close(end)
        for caller in found:
            assert caller.line() == "ready"
        yield found
    assert process.returncode == 0
