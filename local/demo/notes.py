"""What workers write down of each attempt at its beginning and its end, apart from what they tell the queue."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Word(StrEnum):
    """What is noted of an attempt."""

    BEGAN = "began"
    DID = "did"
    RAISED = "raised"
    #: It was told to stop, and did.
    STOPPED = "stopped"


class Note(NamedTuple):
    """A line of the notes."""

    word: Word
    job: int
    attempt: int
    pid: int


class NoteWriter:
    """Appends to the notes of all workers."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, word: Word, job: int, attempt: int) -> None:
        """Write a line down: it stays, even if this process is killed at once."""
        # In one call, so that a line is whole or not there.
        os.write(self._file, f"{word} {job} {attempt} {os.getpid()}\n".encode())


class NoteReader:
    """The notes so far."""

    def __init__(self, path: Path) -> None:
        self.notes: list[Note] = []
        self._path = path
        self._read = 0

    def read(self) -> list[Note]:
        """Take in and return what is new."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            found = file.read()
        whole = found[: found.rfind(b"\n") + 1]
        self._read += len(whole)
        new = [_note(line) for line in whole.decode().splitlines()]
        self.notes += new
        return new


def _note(line: str) -> Note:
    word, job, attempt, pid = line.split()
    return Note(Word(word), int(job), int(attempt), int(pid))
