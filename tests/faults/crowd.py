"""Many sandboxes that answer requests at one moment: python -m tests.faults.crowd local|network FILE COUNT.

Each is a fork, since Python starts slowly, and has its own connection to the file. They wait for each other, then each
enqueues, claims and completes, repeating what is refused as busy. Each line of the output is an answer that was given:
the sandbox, the request, its status, and the job's id.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import web.app
from queuelog import Store
from tests.http.support import Api, assert_problem, with_key
from tests.support import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.http.support import Answer


def insist(tell: Callable[..., None], name: str, ask: Callable[[], Answer]) -> dict[str, Any]:
    """Ask until the queue isn't too busy, and return what it answers."""
    while (answer := ask()).status == 503:
        assert_problem(answer, 503, "storage-busy")
        tell(name, 503, 0)
    body: dict[str, Any] = answer.body or {"id": 0}
    tell(name, answer.status, body["id"])
    return body


def live(api: Api, number: int, output: int) -> None:
    def tell(*words: object) -> None:
        os.write(output, (" ".join(map(str, (number, *words))) + "\n").encode())

    caller = with_key(f"sandbox-{number}", "producer", "worker")
    for each in range(2):
        insist(tell, "enqueue", partial(api.enqueue, caller, idempotency_key=f"key-{each}"))
    job = insist(tell, "claim", partial(api.claim, caller))
    insist(tell, "complete", partial(api.complete, job["id"], caller, lease_token=job["lease_token"]))


def main(network: str, path: str, count: str) -> None:
    os.environ |= {"QUEUELOG_DATABASE": path, "QUEUELOG_JOB_TYPES": "email"}
    web.app.metrics.provider.namespace = "Queuelog"
    vars(web.app)["Store"] = partial(Store, network=network == "network")
    api = Api(Path(path), SteppedClock())
    output = os.dup(1)
    # What the functions log would be in the way.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    waiting, go = os.pipe()
    children = []
    for number in range(int(count)):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(go)
                os.read(waiting, 1)
                live(api, number, output)
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        children.append(child)
    os.close(go)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


if __name__ == "__main__":
    main(*sys.argv[1:])
