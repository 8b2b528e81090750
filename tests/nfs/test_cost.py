"""What a verb costs on NFS, counted in requests to the server, and who gets how much when four ask at once.

The tables are printed at the end of the run, in Markdown; docs/operations.md has a copy of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.nfs.lab import Lab

    #: For each verb, and each way it was called, the requests of each operation that one call sent.
    Trips = dict[str, dict[str, dict[str, float]]]

#: Trips of one call, on average, that the store must not pass.
MOST = {"enqueue": 16, "claim": 14, "complete": 14, "get": 9, "list": 9, "empty claim": 9}
MOST_PER_JOB = 0.3
#: Milliseconds that a trip to EFS takes.
MILLISECONDS = (1, 2, 3)
SECONDS = 30
#: Milliseconds that a request takes to leave. The machine is emulated, and some 25 times slower than a real one: with 1
#: ms its processor decides who gets how much, and with 25 the file server, as it does where a trip takes 1 ms.
DELAYS = (1, 25)
#: What the slowest client must get of the mean, and all of them together of what stock SQLite gives.
LEAST_SHARE, LEAST_RATIO = 0.6, 1.5
#: More than four clients can claim in that time.
JOBS = 1_500
#: Calls of each verb alone, of which checkpoints are a part; with a second client it is half of them.
CALLS = {"singles": 100, "batches": {"10": 20, "100": 10}, "cold_starts": 5}
#: Stock SQLite makes no checkpoints, so fewer calls are as telling.
FEWER_CALLS = {"singles": 20, "batches": {"10": 6, "100": 4}, "cold_starts": 5}


def jobs_of(verb: str) -> int:
    """Return how many jobs one call of a verb is about."""
    last = verb.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 1


def total(trips: dict[str, float]) -> float:
    return sum(trips.values())


def table(rows: list[list[str]]) -> str:
    header, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([header, "|---" + "|---:" * (len(rows[0]) - 1) + "|", *body])


def trips_table(found: Trips) -> str:
    """Return one row a verb: its trips, and what they mean at each time that a trip may take."""
    header = ["verb", "trips alone", "with a second client"]
    header += [f"{each} ms a trip" for each in MILLISECONDS]
    header += [f"jobs/s at {each} ms" for each in MILLISECONDS]
    rows = [header]
    for verb, ways in found.items():
        alone = total(ways["alone"])
        between = f"{total(ways['between']):.1f}" if "between" in ways else ""
        times = [f"{alone * each:.0f} ms" for each in MILLISECONDS]
        rates = [f"{1_000 * jobs_of(verb) / (alone * each):.0f}" for each in MILLISECONDS]
        rows.append([verb, f"{alone:.1f}", between, *times, *rates])
    return table(rows)


def operations_table(found: Trips) -> str:
    """Return one row a verb and way, one column an operation of NFS."""
    names = sorted({name for ways in found.values() for trips in ways.values() for name in trips})
    rows = [["verb", *names]]
    for verb, ways in found.items():
        for way, trips in ways.items():
            label = verb if way == "alone" else f"{verb}, with a second client"
            rows.append([label, *(f"{trips[name]:.1f}" if name in trips else "" for name in names)])
    return table(rows)


@pytest.fixture(scope="module")
def trips(lab: Lab) -> Trips:
    found: Trips = lab.run("trips", seconds=1_200, stock=False, **CALLS)
    return found


@pytest.fixture(scope="module")
def stock_trips(lab: Lab) -> Trips:
    found: Trips = lab.run("trips", seconds=1_200, stock=True, **FEWER_CALLS)
    return found


def test_the_trips_of_each_verb_are_shown(trips: Trips, stock_trips: Trips, show: Callable[[str], None]) -> None:
    for name, found in (("The store", trips), ("Stock SQLite in PERSIST", stock_trips)):
        show(f"{name}: trips to the file server for one call\n\n{trips_table(found)}")
        show(f"{name}: the same by operation\n\n{operations_table(found)}")
    for verb in MOST:
        assert 0 < total(trips[verb]["alone"]) < total(stock_trips[verb]["alone"])


@pytest.mark.parametrize("verb", MOST)
def test_a_verb_takes_few_trips(trips: Trips, verb: str) -> None:
    assert round(total(trips[verb]["alone"]), 1) <= MOST[verb]


@pytest.mark.parametrize("verb", ["enqueue 100", "claim 100", "finish 100"])
def test_a_job_of_a_large_batch_takes_a_third_of_a_trip(trips: Trips, verb: str) -> None:
    assert total(trips[verb]["alone"]) / 100 <= MOST_PER_JOB


class Race:
    """What four clients got who claimed in a loop."""

    def __init__(self, clients: list[dict[str, Any]]) -> None:
        self.claims = [len(each["claimed"]) for each in clients]
        self.ids = [id for each in clients for id in each["claimed"]]
        self.total = len(self.ids)
        self.share = min(self.claims) * len(clients) / self.total
        self.longest = max(each["longest"] for each in clients)
        self.refused = sum(each["refused"] for each in clients)
        self.locks = sum(each["trips"].get("LOCK", 0) for each in clients) / self.total
        self.trips = sum(total(each["trips"]) for each in clients) / self.total

    def row(self, name: str, stock: Race) -> list[str]:
        return [
            name,
            ", ".join(map(str, sorted(self.claims))),
            str(self.total),
            f"{self.total / stock.total:.1f}",
            f"{self.share:.2f}",
            f"{self.longest:.1f} s",
            str(self.refused),
            f"{self.locks:.1f}",
            f"{self.trips:.1f}",
        ]


def test_four_clients_get_their_share_of_the_claims(lab: Lab, show: Callable[[str], None]) -> None:
    header = ["", "claims of each", "total", "ratio", "slowest/mean", "longest wait", "refused", "LOCKs/claim"]
    rows = [[*header, "trips/claim"]]
    races: dict[int, tuple[Race, Race]] = {}
    for delay in DELAYS:
        arguments = {"jobs": JOBS, "seconds_of_claims": SECONDS, "delay": delay}
        stock = Race(lab.run("fairness", seconds=600, stock=True, **arguments))
        ours = Race(lab.run("fairness", seconds=600, stock=False, **arguments))
        rows += [stock.row(f"stock PERSIST, {delay} ms", stock), ours.row(f"the store, {delay} ms", stock)]
        races[delay] = stock, ours
    show(f"Four clients claim in a loop for {SECONDS} s\n\n{table(rows)}")
    for stock, ours in races.values():
        for race in (stock, ours):
            assert len(set(race.ids)) == race.total < JOBS
        assert ours.share > LEAST_SHARE
    stock, ours = races[DELAYS[-1]]
    assert ours.total > LEAST_RATIO * stock.total
