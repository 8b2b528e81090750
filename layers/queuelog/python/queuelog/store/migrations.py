from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from queuelog.errors import NotADatabase, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Iterator

#: "QLOG" in ASCII, in SQLite's header: tells a queue from any other application's database.
APPLICATION_ID = 0x514C4F47


class Version(NamedTuple):
    """A schema's version: a minor one only adds, so that functions of the release before still work beside it.

    `PRAGMA user_version` keeps it as 1000 times major plus minor; 0.0 is an empty file.
    """

    major: int
    minor: int

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> Version:
        """Read a file's version."""
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        return cls(*divmod(number, 1000))


class Migration(NamedTuple):
    """The statements that lead to a version, from a file named <major>.<minor>_<what>.sql."""

    version: Version
    script: str


@cache
def load() -> tuple[Migration, ...]:
    """Return all migrations, the oldest first."""
    folder = files("queuelog.store") / "migrations"
    found = []
    for each in folder.iterdir():
        major, minor = each.name.partition("_")[0].split(".")
        found.append(Migration(Version(int(major), int(minor)), each.read_text("utf-8")))
    return tuple(sorted(found))


LEASES = Version(1, 1)
#: Migrations that must look at every row: the sweep applies them, for no request has the time.
COUNTS = Version(1, 2)
GROWING = frozenset({COUNTS})


def pending(connection: sqlite3.Connection) -> list[Migration]:
    """Return what the file still needs; raise SchemaTooNew, and NotADatabase for another application's file."""
    # One statement, so that it sees one state of a file that another process is just making.
    number, application_id, tables = connection.execute(
        "SELECT * FROM pragma_user_version, pragma_application_id, (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if application_id != APPLICATION_ID and tables:
        raise NotADatabase("The file is another application's SQLite database: point QUEUELOG_DATABASE elsewhere.")
    version = Version(*divmod(number, 1000))
    known = load()
    if version.major > known[-1].version.major:
        raise SchemaTooNew
    return [migration for migration in known if migration.version > version]


def due_at_once(connection: sqlite3.Connection) -> list[Migration]:
    """Return what the file needs before a request can be served: in a new file everything."""
    needed = pending(connection)
    is_new = len(needed) == len(load())
    return needed if is_new else list(takewhile(lambda each: each.version not in GROWING, needed))


def apply(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    """Bring the schema up to date inside the caller's transaction."""
    for migration in migrations:
        for statement in _statements(migration.script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {migration.version.major * 1000 + migration.version.minor}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements(script: str) -> Iterator[str]:
    """Split a script; executescript can't serve, since it commits the open transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
