"""What a process leaves behind that is killed, at each moment that leaves something."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.crash import HELD
from tests.http.support import codes, with_key
from tests.support import start_python

if TYPE_CHECKING:
    from tests.faults.support import Site

CRASHED = with_key("crash", "worker")


def start(moment: str, network: bool, site: Site) -> subprocess.Popen[str]:
    arguments = [moment, "network" if network else "local", str(site.path)]
    return start_python("-m", "tests.faults.crash", *arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("is_open", [True, False], ids=["beside others", "alone"])
def test_a_transaction_of_a_killed_process_never_was_and_its_jobs_are_still_held(
    site: Site, network: bool, is_open: bool
) -> None:
    if not is_open:
        site.store.close()
    process = start("in_a_transaction", network, site)
    assert process.stdout is not None
    told = [line.split() for line in iter(process.stdout.readline, "waiting\n")]
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors

    site.made += [int(rest[0]) for word, *rest in told if word == "made"]
    held: list[dict[str, Any]] = [
        {"id": int(id), "lease_token": token} for word, id, *rest in told if word == "held" for token in rest
    ]
    assert len(held) == HELD
    # Each token still counts, as if the process had never begun to end its jobs.
    jobs = [{**each, "outcome": "completed", "result": {"by": "another"}} for each in held]
    answer = site.api.finish_jobs(jobs, CRASHED)
    assert codes(answer) == [200] * HELD
    assert {item["job"]["status"] for item in answer.body["jobs"]} == {"completed"}
    site.ended |= {each["id"] for each in held}
    site.assert_nothing_lost()


@pytest.mark.parametrize("is_open", [True, False], ids=["beside others", "alone"])
@pytest.mark.parametrize("moment", ["in_a_commit", "before_a_sync", "in_a_checkpoint"])
def test_what_was_acknowledged_before_a_crash_is_there_and_the_rest_is_all_or_nothing(
    site: Site, network: bool, moment: str, is_open: bool
) -> None:
    if not is_open:
        site.store.close()
    process = start(moment, network, site)
    output, errors = process.communicate()
    assert process.returncode == -signal.SIGSYS, errors
    site.made += [int(line.split()[1]) for line in output.splitlines()]
    in_doubt = len(site.ids()) - len(site.made)
    assert in_doubt in {0, 10}
    site.assert_nothing_lost(in_doubt)
