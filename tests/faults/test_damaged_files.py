"""A database file that something has cut short or overwritten."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from queuelog import DatabaseCorrupt, NotADatabase
from tests.faults.support import ANY, LARGE, Site

if TYPE_CHECKING:
    from collections.abc import Callable

DAMAGED = "The database file is damaged: stop the functions and restore a backup"
NOT_A_DATABASE = "The file is not an SQLite database: move it away or point QUEUELOG_DATABASE elsewhere"
PAGE = 4_096


def garbage(size: int) -> bytes:
    return random.Random(size).randbytes(size)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], type[DatabaseCorrupt | NotADatabase], str]] = {
    "cut in half": (lambda whole: whole[: len(whole) // 2], DatabaseCorrupt, DAMAGED),
    "cut within a page": (lambda whole: whole[: len(whole) // 2 + 7], DatabaseCorrupt, DAMAGED),
    "cut to its first page": (lambda whole: whole[:PAGE], DatabaseCorrupt, DAMAGED),
    "cut within its header": (lambda whole: whole[:50], DatabaseCorrupt, DAMAGED),
    "without its last page": (lambda whole: whole[:-PAGE], DatabaseCorrupt, DAMAGED),
    "garbage after its first page": (
        lambda whole: whole[:PAGE] + garbage(len(whole) - PAGE),
        DatabaseCorrupt,
        DAMAGED,
    ),
    "a garbage header": (lambda whole: garbage(100) + whole[100:], NotADatabase, NOT_A_DATABASE),
    "garbage": (lambda whole: garbage(len(whole)), NotADatabase, NOT_A_DATABASE),
    "text": (lambda _: b"moved to another host\n", NotADatabase, NOT_A_DATABASE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_left_as_it_is_until_it_is_restored(site: Site, damage: str) -> None:
    harm, error, says = DAMAGES[damage]
    site.enqueue(*[LARGE] * 5, *[ANY] * 50)
    whole = site.settle()
    damaged = harm(whole)
    site.path.write_bytes(damaged)

    site.assert_raises(error, site.caller.list, says)
    site.assert_raises(error, lambda: site.enqueue(ANY), says)
    site.assert_raises(error, lambda: site.store.back_up(site.path.with_name("copy.db")), says)
    for request in (site.api.list, site.api.enqueue, site.api.claim, site.changes()["complete_job"]):
        site.assert_refused(request(), 500, "internal-error", says)
    with pytest.raises(error):
        site.api.sweep()
    site.assert_logged(says)

    assert site.path.read_bytes() == damaged
    site.path.write_bytes(whole)
    site.assert_nothing_lost()


def test_a_file_that_is_cut_while_it_is_in_use_is_refused_until_it_is_restored(site: Site) -> None:
    site.enqueue(*[LARGE] * 5, *[ANY] * 50)
    whole = site.settle()
    site.caller.list()
    site.path.write_bytes(whole[: len(whole) // 2])
    for request in (*site.looks().values(), *site.changes().values()):
        site.assert_refused(request(), 500, "internal-error", DAMAGED)
    site.path.write_bytes(whole)
    site.assert_nothing_lost()
