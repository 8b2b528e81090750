"""Faults of a file system as the kernel itself reports them: it refuses some system calls, to one thread alone.

This is a seccomp filter (seccomp(2)). Unlike a small or a read-only mount it needs no right that an ordinary user, a
container or a hosted runner may lack; it can strike at one exact moment; and since it binds no other thread, the same
process goes on without the fault as soon as this one has ended.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = TypeVar("Answer")

#: What linux/audit.h calls a machine, and the numbers of its system calls; None where it has no such call.
MACHINES: dict[str, tuple[int, dict[str, int | None]]] = {
    "aarch64": (
        0xC000_00B7,
        {
            "copy_file_range": 285,
            "fallocate": 47,
            "fdatasync": 83,
            "fsync": 82,
            "ftruncate": 46,
            "mkdir": None,
            "mkdirat": 34,
            "open": None,
            "openat": 56,
            "pwrite64": 68,
            "rename": None,
            "renameat": 38,
            "sendfile": 71,
            "symlink": None,
            "symlinkat": 36,
            "unlink": None,
            "unlinkat": 35,
            "write": 64,
        },
    ),
    "x86_64": (
        0xC000_003E,
        {
            "copy_file_range": 326,
            "fallocate": 285,
            "fdatasync": 75,
            "fsync": 74,
            "ftruncate": 77,
            "mkdir": 83,
            "mkdirat": 258,
            "open": 2,
            "openat": 257,
            "pwrite64": 18,
            "rename": 82,
            "renameat": 264,
            "sendfile": 40,
            "symlink": 88,
            "symlinkat": 266,
            "unlink": 87,
            "unlinkat": 263,
            "write": 1,
        },
    ),
}

# linux/seccomp.h, linux/prctl.h, and the instructions of linux/filter.h that are needed here.
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Where a filter finds the call's number, the machine, and the low half of an argument (little endian).
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16


class Argument(NamedTuple):
    """What one argument of a refused call is like."""

    place: int
    test: int
    value: int


class Refusal(NamedTuple):
    """A call that the kernel refuses with an error; or kills the process at, if that is None."""

    call: str
    error: int | None
    only: Argument | None = None
    #: Files that it may be made to all the same.
    but_for: tuple[int, ...] = ()


def _files_open_now() -> tuple[int, ...]:
    # write(2) also serves what the test itself prints and logs.
    return tuple(int(each.name) for each in Path("/proc/self/fd").iterdir())


def full(beyond: int = 0) -> list[Refusal]:
    """Return what a file system says that has no room left, or none for what lies `beyond` so many bytes of a file."""
    calls = ["fallocate", "copy_file_range", "sendfile"]
    past = Argument(3, _AT_LEAST, beyond) if beyond else None
    return [
        Refusal("pwrite64", errno.ENOSPC, past),
        Refusal("write", errno.ENOSPC, but_for=_files_open_now()),
        *(Refusal(call, errno.ENOSPC) for call in calls),
    ]


def read_only() -> list[Refusal]:
    """Return what a file system says that is read-only, or has become so under files that were open."""
    changing = Argument(2, _ANY_BIT, os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    calls = ["pwrite64", "ftruncate", "fallocate", "copy_file_range", "sendfile"]
    names = ["mkdir", "mkdirat", "rename", "renameat", "symlink", "symlinkat", "unlink", "unlinkat"]
    return [
        Refusal("openat", errno.EROFS, changing),
        Refusal("open", errno.EROFS, changing._replace(place=1)),
        Refusal("write", errno.EROFS, but_for=_files_open_now()),
        *(Refusal(call, errno.EROFS) for call in (*calls, *names)),
    ]


def never_synced(error: int = errno.EIO) -> list[Refusal]:
    """Return what a disk or a server says that took what was written and then couldn't keep it."""
    return [Refusal("fsync", error), Refusal("fdatasync", error)]


def killed_at(call: str, *, beyond: int = 0) -> list[Refusal]:
    """Return a kill -9 at the first such call, of a write at the first one `beyond` so many bytes of a file."""
    return [Refusal(call, None, Argument(3, _AT_LEAST, beyond) if beyond else None)]


@contextmanager
def refusing(refusals: list[Refusal]) -> Iterator[Callable[[Callable[[], Answer]], Answer]]:
    """Let the block call functions in a thread that the kernel refuses these calls."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(refuse, refusals).result()
        yield lambda act: thread.submit(act).result()


def refuse(refusals: list[Refusal]) -> None:
    """Have the calls refused to this thread from now on, and to what it starts; there is no way back."""
    program = _program(refusals)
    text = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, *rest in ((_SET_NO_NEW_PRIVS, 1, 0), (_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))):
        if libc.prctl(option, *(ctypes.c_ulong(each) for each in (*rest, 0, 0))) != 0:
            raise OSError(ctypes.get_errno(), "The kernel takes no seccomp filter, which these tests need")


def _program(refusals: list[Refusal]) -> bytes:
    try:
        machine, numbers = MACHINES[platform.machine()]
    except KeyError:
        known = " or ".join(MACHINES)
        raise OSError(f"These tests need Linux on {known}, to have the kernel refuse a system call.") from None
    program = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _ALLOW)]
    for call, error, only, but_for in refusals:
        number = numbers[call]
        if number is None:
            continue
        verdict = [(_RETURN, 0, 0, _KILL_PROCESS if error is None else _ERRNO | error)]
        if only is not None:
            verdict = [(_LOAD, 0, 0, _ARGUMENTS + 8 * only.place), (only.test, 0, 1, only.value), *verdict]
        # Each jumps over the rest of them and over the verdict.
        jumps = [(_EQUAL, len(but_for) - index, 0, file) for index, file in enumerate(but_for)]
        verdict = [(_LOAD, 0, 0, _ARGUMENTS), *jumps, *verdict] if jumps else verdict
        program += [(_LOAD, 0, 0, _CALL), (_EQUAL, 0, len(verdict), number), *verdict]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
