"""GET /jobs"""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http.support import Api, Caller

PRIORITIES = ("low", "critical", "medium", "high")


def ids(page: dict[str, Any]) -> list[int]:
    return [job["id"] for job in page["jobs"]]


def pages(api: Api, caller: Caller = ADMIN, /, **query: str) -> Iterator[dict[str, Any]]:
    while True:
        page = success(api.list(caller, **query))
        yield page
        if page["next_cursor"] is None:
            return
        query["cursor"] = page["next_cursor"]


def mixed_jobs(api: Api, count: int = 12) -> None:
    for number in range(count):
        api.new_job(ADMIN, type=("email", "pdf", "sync")[number % 3], priority=PRIORITIES[number % 4])
        api.clock.advance(seconds=number % 2)


def test_an_empty_list_is_a_page_without_a_next_one(api: Api) -> None:
    answer = api.list()
    assert success(answer) == {"jobs": [], "next_cursor": None}
    assert answer.headers == {"Content-Type": "application/json"}


def test_the_newest_job_comes_first(api: Api) -> None:
    mixed_jobs(api)
    assert ids(success(api.list())) == list(range(12, 0, -1))
    assert ids(success(api.list(order="newest"))) == list(range(12, 0, -1))


def test_the_order_of_the_queue_is_the_order_of_claims(api: Api) -> None:
    mixed_jobs(api)
    listed = ids(success(api.list(order="queue", status="pending")))
    assert sorted(listed) == list(range(1, 13))
    assert listed == [api.claimed_job()["id"] for _ in range(12)]


def test_a_page_has_50_jobs_unless_told(api: Api) -> None:
    for _ in range(51):
        api.new_job()
    assert [len(page["jobs"]) for page in pages(api)] == [50, 1]
    assert [len(page["jobs"]) for page in pages(api, limit="100")] == [51]
    assert [len(page["jobs"]) for page in pages(api, limit="51")] == [51]


@pytest.mark.parametrize("query", [{}, {"order": "queue", "status": "pending"}], ids=["newest", "queue"])
@pytest.mark.parametrize("limit", [1, 2, 5, 11, 12, 13])
def test_the_pages_hold_every_job_once_and_in_order(api: Api, query: dict[str, str], limit: int) -> None:
    mixed_jobs(api)
    whole = ids(success(api.list(**query)))
    found = list(pages(api, limit=str(limit), **query))
    assert [id for page in found for id in ids(page)] == whole
    assert {len(page["jobs"]) for page in found[:-1]} <= {limit}


@pytest.mark.parametrize("query", [{}, {"order": "queue", "status": "pending"}], ids=["newest", "queue"])
def test_a_cursor_is_safe_in_a_url_as_it_is(api: Api, query: dict[str, str]) -> None:
    mixed_jobs(api)
    for page in pages(api, limit="1", **query):
        assert page["next_cursor"] is None or re.fullmatch(r"[A-Za-z0-9_-]+", page["next_cursor"])


def test_jobs_that_come_and_go_meanwhile_disturb_no_page(api: Api) -> None:
    mixed_jobs(api, 6)
    newest, queue = pages(api, limit="2"), pages(api, limit="2", order="queue", status="pending")
    seen = [ids(next(newest)), ids(next(queue))]
    gone = api.claimed_job()["id"]
    api.new_job(ADMIN, priority="low")
    seen_newest = seen[0] + [id for page in newest for id in ids(page)]
    seen_queue = seen[1] + [id for page in queue for id in ids(page)]
    assert seen_newest == [6, 5, 4, 3, 2, 1]
    assert len(seen_queue) == len(set(seen_queue))
    assert {*seen_queue, gone} == set(range(1, 8))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": "pending"}, [4, 3, 1]),
        ({"status": "running"}, [5]),
        ({"status": "completed"}, [2]),
        ({"status": "failed"}, [6]),
        ({"status": "cancelled"}, []),
        ({"type": "pdf"}, [5, 2]),
        ({"type": "fax"}, []),
        ({"priority": "critical"}, [6, 2]),
        ({"priority": "CRITICAL"}, [6, 2]),
        ({"priority": "High"}, [4]),
        ({"type": "email", "status": "pending"}, [4, 1]),
        ({"type": "email", "status": "pending", "priority": "low"}, [1]),
        ({"status": "pending", "order": "queue"}, [4, 3, 1]),
        ({"status": "pending", "order": "queue", "type": "email"}, [4, 1]),
        ({"status": "pending", "order": "queue", "priority": "low"}, [1]),
    ],
)
def test_a_list_shows_what_passes_every_filter(api: Api, query: dict[str, str], expected: list[int]) -> None:
    mixed_jobs(api, 6)
    api.claimed_job(types=["pdf"])
    api.complete(2)
    api.claimed_job(types=["pdf"])
    api.claimed_job(types=["sync"])
    api.fail(6, permanent=True)
    assert ids(success(api.list(**query))) == expected
    assert [id for page in pages(api, limit="1", **query) for id in ids(page)] == expected


def test_a_caller_lists_what_it_may_see(api: Api) -> None:
    shop, signer = with_key("shop", "producer"), signed("Producer", "s1")
    for caller in (PRODUCER, shop, signer, PRODUCER):
        api.new_job(caller)
    api.claimed_job()
    assert ids(success(api.list(PRODUCER))) == [4, 1]
    assert ids(success(api.list(shop))) == [2]
    assert ids(success(api.list(signed("Producer", "s2")))) == [3]
    assert ids(success(api.list(WORKER))) == [1]
    assert ids(success(api.list(with_key("packer", "worker")))) == []
    assert ids(success(api.list(ADMIN))) == [4, 3, 2, 1]
    assert ids(success(api.list(shop, status="pending", order="queue"))) == [2]


def test_nobody_learns_from_a_page_how_many_jobs_others_have(api: Api) -> None:
    shop = with_key("shop", "producer")
    api.new_job(shop)
    for _ in range(5):
        api.new_job(PRODUCER)
    api.new_job(shop)
    assert [ids(page) for page in pages(api, shop, limit="1")] == [[7], [1]]


def encoded(*parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


GOOD_TIME = "2026-01-31T12:00:00.000Z"
IMPOSSIBLE: list[tuple[Any, ...]] = [
    (),
    (2,),
    (2, 0),
    (2, 0, "", 1),
    (0, 0, ""),
    (-1, 0, ""),
    (2**53, 0, ""),
    (2**64, 0, ""),
    (2.0, 0, ""),
    (True, 0, ""),
    ("2", 0, ""),
    (None, 0, ""),
    ([2], 0, ""),
    (float("nan"), 0, ""),
    (float("inf"), 0, ""),
    (2, -1, ""),
    (2, 31, ""),
    (2, "0", ""),
    (2, 10.0, ""),
    (2, None, ""),
    (2, float("nan"), ""),
    (2, "\ud800", ""),
    (2, 10, None),
    (2, 10, 0),
    (2, 10, False),
    (2, 10, []),
    (2, 10, {}),
    (2, 10, float("nan")),
    (2, 10, "\ud800"),
    (2, 10, "yesterday"),
    (2, 10, "2026-01-31T12:00:00"),
    (2, 10, "2026-01-31T12:00:00.000+01:00"),
    (2, 10, "20260131T120000Z"),
    (2, 10, [GOOD_TIME]),
]
FORGED = [
    "x",
    "==",
    "a,b",
    "é",
    "WyJuZXdlc3QiLDIsMCwiIl0=",
    " WyJuZXdlc3QiLDIsMCwiIl0",
    "WyJuZXdlc3QiLDIsMCwiIl1",
    base64.urlsafe_b64encode(b"[" * 50_000).decode(),
    base64.urlsafe_b64encode(b'{"a":1,"b":2,"c":3,"d":4}').decode(),
    base64.urlsafe_b64encode(b'["newest", 2, 0, ""]').decode().rstrip("="),
    base64.urlsafe_b64encode(b'["newest",2,0,"\xff"]').decode().rstrip("="),
    base64.urlsafe_b64encode(b'["newest",' + b"7" * 5_000 + b',0,""]').decode().rstrip("="),
    *(encoded(order, *position) for order in ("newest", "queue") for position in IMPOSSIBLE),
    encoded("oldest", 2, 0, ""),
    encoded(1, 2, 0, ""),
    encoded(None, 2, 0, ""),
]


@pytest.mark.parametrize("query", [{}, {"order": "queue", "status": "pending"}], ids=["newest", "queue"])
def test_a_cursor_that_no_list_returned_is_a_fault(api: Api, query: dict[str, str]) -> None:
    mixed_jobs(api, 3)
    for cursor in FORGED:
        answer = api.list(cursor=cursor, **query)
        assert assert_problem(answer, 422, "validation-failed") == {("cursor", "invalid_cursor")}, cursor


def test_a_cursor_is_for_its_own_order(api: Api) -> None:
    mixed_jobs(api)
    newest = success(api.list(limit="2", status="pending"))["next_cursor"]
    queue = success(api.list(limit="2", status="pending", order="queue"))["next_cursor"]
    for cursor, order in ((newest, "queue"), (queue, "newest")):
        answer = api.list(limit="2", status="pending", order=order, cursor=cursor)
        assert assert_problem(answer, 422, "validation-failed") == {("cursor", "invalid_cursor")}


def test_a_cursor_shows_nobody_more_than_they_may_see(api: Api) -> None:
    api.new_job(with_key("shop", "producer"))
    for _ in range(3):
        api.new_job(PRODUCER)
    cursor = success(api.list(ADMIN, limit="2"))["next_cursor"]
    assert ids(success(api.list(PRODUCER, cursor=cursor))) == [2]


TEN_THOUSAND_MORE = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)
INSERT INTO jobs (
    type, priority, status, due_at, max_retries, created_by, created_at, updated_at, fingerprint, encoded_size, payload
)
SELECT 'email', priority, status, due_at, 3, created_by, created_at, updated_at, fingerprint, encoded_size, payload
FROM jobs, numbers
"""


def test_a_filter_that_few_jobs_pass_reads_10_000_rows_and_then_gives_a_short_page(api: Api) -> None:
    api.new_job(type="pdf")
    with closing(sqlite3.connect(api.database)) as connection, connection:
        connection.execute(TEN_THOUSAND_MORE)
    found = list(pages(api, type="pdf"))
    assert [ids(page) for page in found] == [[], [1]]
    queued = list(pages(api, priority="low", status="pending", order="queue"))
    assert [ids(page) for page in queued] == [[], []]
