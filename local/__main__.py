"""`make run`: the local API on PORT, with its data in DATA_DIR, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from local.errors import CannotStartError
from local.settings import STOP_SIGNALS, data_dir_of, port_of

if TYPE_CHECKING:
    from pathlib import Path

    from local.api import LocalApi

WELCOME = """\
Queuelog listens on {url}, for this machine alone. Ctrl-C stops it.
{novelty} in {keys}; what the functions log is in {log}.

To try it, paste this into another terminal; the last line completes job 1, so put in the id that the claim shows.

  key() {{ sed -n "s/.*\\"$1\\": \\"\\(.*\\)\\".*/\\1/p" {quoted_keys}; }}

  curl -iw '\\n' {url}/jobs -H "X-Api-Key: $(key producer)" -H "Content-Type: application/json" \\
    -d '{{"type": "email", "payload": {{"to": "ada@example.com"}}}}'
  curl -iw '\\n' -X POST {url}/jobs/claim -H "X-Api-Key: $(key worker)"
  curl -iw '\\n' -X POST {url}/jobs/1/complete -H "X-Api-Key: $(key worker)"

Or with the command line, as an admin; .venv/bin/queuelog --help lists its commands.

  export QUEUELOG_URL={url} QUEUELOG_API_KEY="$(key admin)"
  .venv/bin/queuelog enqueue email '{{"to": "ada@example.com"}}' --delay 1m
  .venv/bin/queuelog jobs --watch
"""


def main() -> int:
    """Serve until a signal says stop, and return the exit code."""
    # Held back until sigwait takes one: none may land in the middle of an import, of a file or of an answer.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        _serve(data_dir_of(os.environ), port_of(os.environ))
    except CannotStartError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _serve(data_dir: Path, port: int) -> None:
    from local.api import LocalApi  # noqa: PLC0415  after the signals are held back, for SAM CLI takes most of a second

    terminal = sys.stdout

    def report(line: str) -> None:
        # A terminal that has gone must not take an answer with it. One write for a line, since threads share it.
        with contextlib.suppress(OSError):
            print(line + "\n", end="", file=terminal, flush=True)

    api = LocalApi(data_dir, port, report=report)
    with api.data.open_log() as log, contextlib.redirect_stdout(log), api:
        report(_welcome(api))
        signal.sigwait(STOP_SIGNALS)
        report("Stopping.")


def _welcome(api: LocalApi) -> str:
    return WELCOME.format(
        url=api.url,
        novelty="New keys are" if api.has_new_keys else "The keys are",
        keys=api.data.keys,
        quoted_keys=shlex.quote(str(api.data.keys)),
        log=api.data.log,
    )


if __name__ == "__main__":
    sys.exit(main())
