"""The locks that hosts share: POSIX record locks, by which a file server shuts out a host that it has lost."""

from __future__ import annotations

import errno
import fcntl
import random
import time

from queuelog.errors import StorageBusy

#: The bytes in which SQLite's own locks lie (https://sqlite.org/fileformat2.html, section 1.4): whoever holds them all
#: shuts out every ordinary SQLite, too.
FIRST_BYTE, BYTES = 0x4000_0000, 512

#: Seconds from one try to the next, at first and at least: who has waited for longer asks more often, and comes first.
FIRST_PAUSE, SHORTEST_PAUSE, AGEING = 0.03, 0.004, 0.8


def try_lock(descriptor: int, *, shared: bool) -> bool:
    """Lock a file for this process, unless another process's lock is in the way; raise OSError.

    A second call replaces the first. Closing any descriptor of the file in this process gives the lock up, and nothing
    but that is needed to give it up (fcntl(2), "record locks").
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        # F_SETLK. An OFD lock would survive a close, but the server's refusal of a lost one doesn't reach SQLite's
        # descriptor; F_SETLKW would sleep, and a client asks again after 1, 2, 4 … 30 s, so that it starves.
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, BYTES, FIRST_BYTE)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def lock(descriptor: int, *, shared: bool, deadline: float) -> None:
    """Lock a file as try_lock does, waiting until `time.monotonic()` has reached `deadline`; raise StorageBusy."""
    pause = FIRST_PAUSE
    while not try_lock(descriptor, shared=shared):
        left = deadline - time.monotonic()
        if left <= 0:
            raise StorageBusy
        time.sleep(min(left, pause * random.uniform(0.5, 1.5)))  # noqa: S311 - chance, not a secret
        pause = max(SHORTEST_PAUSE, pause * AGEING)


def unlock(descriptor: int) -> None:
    """Give up this process's lock on a file, if it has one; raise OSError."""
    fcntl.lockf(descriptor, fcntl.LOCK_UN, BYTES, FIRST_BYTE)
