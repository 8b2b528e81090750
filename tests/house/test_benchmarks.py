from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks import end_to_end

if TYPE_CHECKING:
    import pytest


def test_a_short_round_end_to_end_prints_the_jobs_per_second_of_the_core_and_of_the_api(
    capsys: pytest.CaptureFixture[str],
) -> None:
    end_to_end.run(jobs=20, rounds=1, warm_up=0)
    row = re.compile(r"^(core|local API), (\d+) threads? +[\d,]+ +(\d+\.\d\d) ", re.MULTILINE)
    found = {(way, int(threads)): float(ratio) for way, threads, ratio in row.findall(capsys.readouterr().out)}
    assert set(found) == {(way, threads) for way in ("core", "local API") for threads in (1, 4, 16)}
    assert {found["core", threads] for threads in (1, 4, 16)} == {1.0}
