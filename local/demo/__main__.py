"""`make demo`: the local API with a queue of its own, two workers that have a hard time, and whether it adds up.

It takes a free port and a directory of its own, and leaves nothing behind.
"""

from __future__ import annotations

import signal
import sys
import threading

from local.settings import STOP_SIGNALS


def main() -> int:
    """Show it; return 0 if it adds up, 1 if it doesn't or couldn't be shown, 130 if a signal stopped it."""
    # Held back for good, and from before the imports: what is begun comes to its end, however often somebody presses
    # Ctrl-C.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    stop = threading.Event()
    threading.Thread(target=_wait_for_a_signal, args=(stop,), daemon=True).start()

    from local.demo.stage import run  # noqa: PLC0415

    return run(stop)


def _wait_for_a_signal(stop: threading.Event) -> None:
    signal.sigwait(STOP_SIGNALS)
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
