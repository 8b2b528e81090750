"""python -m queuelog snapshot FILE COPY: a copy of a queue, to look at with any SQLite, while others use the queue."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from queuelog.errors import StorageError
from queuelog.store import snapshots


def main() -> int:
    """Run the command that the arguments name; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m queuelog")
    commands = parser.add_subparsers(required=True)
    snapshot = commands.add_parser(
        "snapshot", help="copy a queue's file, in use or not, into one that any SQLite opens"
    )
    snapshot.add_argument("file", type=Path, metavar="FILE")
    snapshot.add_argument("copy", type=Path, metavar="COPY")
    arguments = parser.parse_args()
    return take_snapshot(arguments.file, arguments.copy)


def take_snapshot(file: Path, copy: Path) -> int:
    """Write the copy, which must not be there yet, whole or not at all; return the exit code."""
    try:
        jobs = snapshots.take(file, copy)
    except FileExistsError as error:
        print(error, file=sys.stderr)
        return 1
    except (StorageError, OSError) as error:
        print(f"{file} was not copied. {error}", file=sys.stderr)
        return 1
    print(f"{copy} holds {jobs} jobs.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
