from __future__ import annotations

import base64
import json
import re
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuelog import (
    Forbidden,
    InvalidCursor,
    InvalidRequest,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    NotFound,
    Order,
    Role,
)
from queuelog.page import JOB_BYTES_WITHOUT_PAYLOAD, MAX_PAGE_BYTES, Position, decode_cursor, encode_cursor
from tests.support import add_jobs, admin, claim, producer, query, steps_of, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queuelog import BoundQueue, Page, Queue
    from tests.support import SteppedClock

ORDERS = [(Order.NEWEST, None), (Order.QUEUE, JobStatus.PENDING)]


@pytest.fixture
def network() -> bool:
    return False


def ids(page: Page) -> list[int]:
    return [job.id for job in page.jobs]


def pages(caller: BoundQueue, **wanted: Any) -> Iterator[Page]:
    page = caller.list(**wanted)
    yield page
    while page.next_cursor is not None:
        page = caller.list(cursor=page.next_cursor, **wanted)
        yield page


def all_ids(caller: BoundQueue, **wanted: Any) -> list[int]:
    return [id for page in pages(caller, **wanted) for id in ids(page)]


@pytest.fixture
def mixed(as_producer: BoundQueue, path: Path) -> list[int]:
    """300 pending jobs of seven types and all priorities, whose age and id disagree; the ids in the order of claims."""
    as_producer.list()
    add_jobs(
        path,
        300,
        type="'type-' || (n % 7)",
        priority="(n * 31 % 4) * 10",
        due_at="'2026-01-31T11:00:' || printf('%02d', n * 17 % 60) || '.000Z'",
    )
    return [id for (id,) in query(path, "SELECT id FROM jobs ORDER BY priority DESC, due_at, id")]


@pytest.fixture
def scene(queue: Queue, clock: SteppedClock) -> dict[str, Job]:
    """One job of each kind: who made it, and who holds it."""
    shop, bank = (queue.bound(producer(name), clock) for name in ("shop", "bank"))
    mail, post = (queue.bound(worker(name), clock) for name in ("mail", "post"))
    for caller in (shop, shop, shop, bank, bank):
        caller.enqueue(NewJob(type="email"))
    jobs = {
        "shop's, held by mail": without_token(claim(mail)),
        "shop's, done by post": post.complete(claim(post).id),
        "shop's, put back by mail": mail.fail(claim(mail).id),
    }
    clock.advance(seconds=1)
    again = claim(post)
    jobs["shop's, put back by mail"] = post.fail(again.id)
    jobs["bank's, failed by mail"] = bank.enqueue(NewJob(type="pdf", max_retries=0)).job
    jobs["bank's, failed by mail"] = mail.fail(claim(mail, types=["pdf"]).id)
    jobs["bank's, waiting"] = bank.get(4)
    jobs["bank's, also waiting"] = bank.get(5)
    return jobs


VISIBLE = {
    producer("shop"): {"shop's, held by mail", "shop's, done by post", "shop's, put back by mail"},
    producer("bank"): {"bank's, failed by mail", "bank's, waiting", "bank's, also waiting"},
    producer("mail"): set(),
    worker("mail"): {"shop's, held by mail", "bank's, failed by mail"},
    worker("post"): {"shop's, done by post"},
    worker("shop"): set(),
    worker("mail", worker_id="mail/session"): set(),
    replace(producer("shop", worker_id="post"), roles=frozenset({Role.PRODUCER, Role.WORKER})): {
        "shop's, held by mail",
        "shop's, done by post",
        "shop's, put back by mail",
    },
    replace(producer("bank", worker_id="mail"), roles=frozenset({Role.PRODUCER, Role.WORKER})): {
        "shop's, held by mail",
        "bank's, failed by mail",
        "bank's, waiting",
        "bank's, also waiting",
    },
}


@pytest.mark.parametrize("who", VISIBLE, ids=lambda who: f"{'-'.join(sorted(who.roles))} {who.name} {who.worker_id}")
def test_a_principal_sees_what_it_created_and_what_it_holds(queue: Queue, scene: dict[str, Job], who: Any) -> None:
    caller = queue.bound(who)
    expected = {scene[kind].id for kind in VISIBLE[who]}
    assert set(ids(caller.list())) == expected
    for job in scene.values():
        if job.id in expected:
            assert caller.get(job.id) == job
        else:
            with pytest.raises(NotFound):
                caller.get(job.id)


def test_an_admin_sees_all(queue: Queue, scene: dict[str, Job]) -> None:
    for who in (admin(), admin(types=frozenset())):
        assert {job.id: job for job in queue.bound(who).list().jobs} == {job.id: job for job in scene.values()}


def test_the_queue_s_order_hides_the_same_jobs(queue: Queue, scene: dict[str, Job]) -> None:
    pending = {"status": JobStatus.PENDING, "order": Order.QUEUE}
    assert ids(queue.bound(producer("shop")).list(**pending)) == [3]  # type: ignore[arg-type]
    assert ids(queue.bound(producer("bank")).list(**pending)) == [4, 5]  # type: ignore[arg-type]
    assert ids(queue.bound(worker("mail")).list(**pending)) == []  # type: ignore[arg-type]


def test_a_principal_without_a_role_may_do_nothing(queue: Queue, scene: dict[str, Job]) -> None:
    nobody = queue.bound(replace(producer("shop"), roles=frozenset()))
    with pytest.raises(Forbidden):
        nobody.list()
    with pytest.raises(Forbidden):
        nobody.get(1)


@pytest.mark.parametrize("id", [7, 0, -1, 2**53, 2**63 - 1])
def test_an_unknown_job_is_not_found_even_by_an_admin(queue: Queue, scene: dict[str, Job], id: int) -> None:
    with pytest.raises(NotFound):
        queue.bound(admin()).get(id)


def test_the_newest_job_comes_first(as_producer: BoundQueue, mixed: list[int]) -> None:
    assert all_ids(as_producer) == sorted(mixed, reverse=True)


def test_the_queue_s_order_is_the_order_of_claims(
    as_producer: BoundQueue, as_worker: BoundQueue, mixed: list[int]
) -> None:
    listed = all_ids(as_producer, status=JobStatus.PENDING, order=Order.QUEUE, limit=100)
    assert listed == mixed
    assert [claim(as_worker).id for _ in range(50)] == mixed[:50]


def test_the_queue_s_order_shows_jobs_that_are_due_later_in_their_place(as_producer: BoundQueue, path: Path) -> None:
    for _ in range(3):
        as_producer.enqueue(NewJob(type="email"))
    query(path, "UPDATE jobs SET due_at = '2027-01-31T12:00:00.000Z' WHERE id = 1")
    assert ids(as_producer.list(status=JobStatus.PENDING, order=Order.QUEUE)) == [2, 3, 1]


@pytest.mark.parametrize("status", [None, *(each for each in JobStatus if each is not JobStatus.PENDING)])
def test_the_queue_s_order_is_for_pending_jobs(as_producer: BoundQueue, status: JobStatus | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        as_producer.list(status=status, order=Order.QUEUE)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("order", "needs_pending")]


def test_filters_narrow_the_list(as_producer: BoundQueue, mixed: list[int], path: Path) -> None:
    query(path, "UPDATE jobs SET status = 'completed' WHERE id % 3 = 0")
    statuses = (None, JobStatus.PENDING, JobStatus.COMPLETED)
    types = (None, "type-3", "type-9")
    priorities = (None, JobPriority.LOW, JobPriority.HIGH)
    for status, type, priority in product(statuses, types, priorities):
        wanted: dict[str, Any] = {"status": status, "type": type, "priority": priority}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "true"
        expected = [id for (id,) in query(path, f"SELECT id FROM jobs WHERE {where} ORDER BY id DESC", given.values())]
        assert all_ids(as_producer, limit=40, **wanted) == expected
        if status is JobStatus.PENDING:
            queued = all_ids(as_producer, limit=40, order=Order.QUEUE, **wanted)
            assert queued == [id for id in mixed if id in set(expected)]


def test_a_page_has_50_jobs_unless_told(as_producer: BoundQueue, mixed: list[int]) -> None:
    assert len(as_producer.list().jobs) == 50


@pytest.mark.parametrize(("order", "status"), ORDERS)
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_pages_show_every_job_once_and_the_last_has_no_cursor(
    as_producer: BoundQueue, mixed: list[int], order: Order, status: JobStatus | None, limit: int
) -> None:
    shown = list(pages(as_producer, order=order, status=status, limit=limit))
    assert [len(page.jobs) for page in shown[:-1]] == [limit] * (len(shown) - 1)
    listed = [id for page in shown for id in ids(page)]
    assert listed == (mixed if order is Order.QUEUE else sorted(mixed, reverse=True))


@pytest.mark.parametrize(("order", "status"), ORDERS)
def test_a_page_that_ends_with_the_last_job_has_no_cursor(
    as_producer: BoundQueue, order: Order, status: JobStatus | None
) -> None:
    for _ in range(4):
        as_producer.enqueue(NewJob(type="email"))
    assert as_producer.list(order=order, status=status, limit=4).next_cursor is None
    assert as_producer.list(order=order, status=status, limit=3).next_cursor is not None


def test_an_empty_list_has_no_cursor(as_producer: BoundQueue) -> None:
    assert as_producer.list() == ((), None)
    assert as_producer.list(status=JobStatus.PENDING, order=Order.QUEUE) == ((), None)


def test_jobs_that_are_added_meanwhile_do_not_shift_the_newest_pages(as_producer: BoundQueue, mixed: list[int]) -> None:
    shown = []
    for page in pages(as_producer, limit=20):
        shown += ids(page)
        as_producer.enqueue(NewJob(type="type-1"))
    assert shown == sorted(mixed, reverse=True)


def test_jobs_that_are_added_or_claimed_meanwhile_do_not_shift_the_queue_s_pages(
    as_producer: BoundQueue, as_admin: BoundQueue, as_worker: BoundQueue, mixed: list[int]
) -> None:
    shown = []
    for page in pages(as_producer, limit=20, status=JobStatus.PENDING, order=Order.QUEUE):
        shown += ids(page)
        as_admin.enqueue(NewJob(type="type-1", priority=JobPriority.CRITICAL))
        claim(as_worker)
    assert shown == mixed


def test_a_cursor_holds_after_its_job_is_gone(as_producer: BoundQueue, as_worker: BoundQueue, mixed: list[int]) -> None:
    wanted: dict[str, Any] = {"status": JobStatus.PENDING, "order": Order.QUEUE}
    first = as_producer.list(limit=2, **wanted)
    for _ in range(2):
        claim(as_worker)
    assert ids(as_producer.list(limit=3, cursor=first.next_cursor, **wanted)) == mixed[2:5]


@pytest.mark.parametrize(("order", "status"), ORDERS)
def test_a_page_reads_10_000_rows_at_most(
    queue: Queue, as_producer: BoundQueue, path: Path, order: Order, status: JobStatus | None
) -> None:
    mine = as_producer.enqueue(NewJob(type="email")).job
    add_jobs(path, 20_003, type="'type-' || (n % 3)", created_by="'somebody else'", priority="(n % 4) * 10")
    query(path, "UPDATE jobs SET due_at = ?, priority = 0 WHERE id = 1", ["2026-01-31T13:00:00.000Z"])
    shown = list(pages(as_producer, order=order, status=status))
    assert [ids(page) for page in shown] == [[], [], [mine.id]]
    assert len(queue.bound(producer("somebody else")).list(order=order, status=status).jobs) == 50
    nobody = list(pages(queue.bound(producer("nobody")), order=order, status=status))
    assert [(page.jobs, page.next_cursor is None) for page in nobody] == [((), False), ((), False), ((), True)]


def test_a_job_in_the_last_row_that_a_page_reads_is_shown(as_producer: BoundQueue, path: Path) -> None:
    as_producer.list()
    add_jobs(path, 10_000, status="iif(n = 1, 'pending', 'completed')")
    assert [ids(page) for page in pages(as_producer, status=JobStatus.PENDING)] == [[1]]
    add_jobs(path, 1, status="'completed'")
    assert [ids(page) for page in pages(as_producer, status=JobStatus.PENDING)] == [[], [1]]


def answered(job: Job) -> int:
    """The bytes of a job in a Lambda answer: JSON, quoted once more as the body."""
    text = json.dumps(asdict(job), default=str, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize(("order", "status"), ORDERS)
@pytest.mark.parametrize("letter", ["a", '"', "\\", "\n", "\x01", "é", "🂡"], ids=ascii)
def test_a_page_ends_before_the_answer_is_too_large_for_lambda(
    as_producer: BoundQueue, path: Path, order: Order, status: JobStatus | None, letter: str
) -> None:
    size = len(json.dumps(letter, ensure_ascii=False).encode()) - 2
    text = letter * ((65_536 - len('{"a":""}')) // size)
    as_producer.enqueue(NewJob(type="email", payload={"a": text}))
    copied = (
        "type, priority, status, due_at, max_retries, created_by, created_at, updated_at, fingerprint, encoded_size"
    )
    copy = f"INSERT INTO jobs ({copied}, payload) SELECT {copied}, payload FROM jobs"
    for _ in range(7):
        query(path, copy)
    shown = list(pages(as_producer, order=order, status=status, limit=100))
    assert sum(len(page.jobs) for page in shown) == 128
    for page in shown:
        assert 0 < sum(map(answered, page.jobs)) <= MAX_PAGE_BYTES
    # A page that ends early is nevertheless a full one: another job would not have fitted.
    assert sum(map(answered, shown[0].jobs)) > MAX_PAGE_BYTES / 2


def test_what_a_job_takes_besides_its_payload_is_never_more_than_is_reckoned(
    as_producer: BoundQueue, as_admin: BoundQueue, path: Path
) -> None:
    as_producer.enqueue(NewJob(type="t" * 100, payload={}, idempotency_key='"' * 255))
    query(
        path,
        "UPDATE jobs SET status = 'running', error = ?, idempotency_key = ?, worker_id = ?, claimed_at = created_at, "
        "created_by = ?, reason = 'lease_expired', retry_count = 25, max_retries = 25",
        ["\x01" * 1_000, '"' * 255, "\\" * 255, '"' * 255],
    )
    assert answered(as_admin.get(1)) <= JOB_BYTES_WITHOUT_PAYLOAD


def forged(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def test_a_cursor_is_safe_in_a_url_as_it_is(as_producer: BoundQueue, mixed: list[int]) -> None:
    for order, status in ORDERS:
        for page in list(pages(as_producer, order=order, status=status, limit=20))[:-1]:
            assert re.fullmatch(r"[A-Za-z0-9_-]+", str(page.next_cursor))


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "a,b",
        "x",
        "=",
        "é",
        "\ud800",
        "AAAA",
        "bnVsbA",
        "[" * 100_000,
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b"9" * 100_000).decode(),
        forged("newest", 1, 0, "") + "=",
        forged("newest", 1, 0, "") + "\n",
        " " + forged("newest", 1, 0, ""),
        base64.urlsafe_b64encode(b'["newest", 1, 0, ""]').decode(),
        forged("newest", 1, 0),
        forged("newest", 1, 0, "", ""),
        forged("oldest", 1, 0, ""),
        forged(["newest"], 1, 0, ""),
        forged("newest", 0, 0, ""),
        forged("newest", -1, 0, ""),
        forged("newest", 2**53, 0, ""),
        forged("newest", 2**64, 0, ""),
        forged("newest", 1.0, 0, ""),
        forged("newest", 1e400, 0, ""),
        forged("newest", float("nan"), 0, ""),
        forged("newest", True, 0, ""),
        forged("newest", "1", 0, ""),
        forged("newest", "\ud800", 0, ""),
        forged("newest", None, 0, ""),
        forged("newest", [], 0, ""),
        forged("newest", 1, -1, ""),
        forged("newest", 1, 31, ""),
        forged("newest", 1, 2**64, ""),
        forged("newest", 1, False, ""),
        forged("newest", 1, 0, None),
        forged("newest", 1, 0, 0),
        forged("newest", 1, 0, []),
        forged("newest", 1, 0, {}),
        forged("newest", 1, 0, "soon"),
        forged("newest", 1, 0, "\ud800"),
        forged("newest", 1, 0, "2026-01-31T12:00:00"),
    ],
    ids=lambda cursor: ascii(cursor[:40]),
)
def test_a_malformed_cursor_is_refused(as_producer: BoundQueue, cursor: str) -> None:
    as_producer.enqueue(NewJob(type="email"))
    for order, status in ORDERS:
        with pytest.raises(InvalidCursor) as refused:
            as_producer.list(cursor=cursor, order=order, status=status)
        assert [(fault.field, fault.code) for fault in refused.value.faults] == [("cursor", "invalid_cursor")]


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize(
    "parts",
    [(1, 0, None), (1, 0, []), (1, 0, {}), (1, 0, 0), (float("nan"), 0, ""), ("\ud800", 0, ""), (1, 0, "soon")],
    ids=ascii,
)
def test_a_forged_cursor_is_refused_in_either_order(
    as_producer: BoundQueue, order: Order, parts: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidCursor):
        as_producer.list(cursor=forged(order, *parts), order=order, status=JobStatus.PENDING)


def test_a_cursor_of_the_other_order_is_refused(as_producer: BoundQueue, mixed: list[int]) -> None:
    cursors = {order: as_producer.list(order=order, status=JobStatus.PENDING).next_cursor for order in Order}
    for order, other in [(Order.NEWEST, Order.QUEUE), (Order.QUEUE, Order.NEWEST)]:
        with pytest.raises(InvalidCursor):
            as_producer.list(order=order, status=JobStatus.PENDING, cursor=cursors[other])


def test_a_borrowed_cursor_shows_nothing_more(queue: Queue, as_producer: BoundQueue, mixed: list[int]) -> None:
    cursor = as_producer.list().next_cursor
    assert queue.bound(producer("stranger")).list(cursor=cursor) == ((), None)


def test_a_cursor_tells_nothing_of_jobs_that_may_not_be_seen(as_producer: BoundQueue, path: Path) -> None:
    mine = [as_producer.enqueue(NewJob(type="email")).job.id for _ in range(2)]
    add_jobs(path, 5, created_by="'somebody else'")
    mine.append(as_producer.enqueue(NewJob(type="email")).job.id)
    for order, status in ORDERS:
        cursor = as_producer.list(order=order, status=status, limit=2 if order is Order.QUEUE else 1).next_cursor
        assert decode_cursor(order, str(cursor)).id in mine


@pytest.mark.parametrize(
    "piece", ["A", "=", "-_", b"[", b'["newest",', b"1", b'{"a":', b"[1,", b'"', b"\\u0000", b"\xff"], ids=ascii
)
def test_a_long_cursor_takes_hardly_more_steps_than_a_short_one(piece: str | bytes) -> None:
    def refuse(length: int) -> None:
        text = piece * length
        cursor = text if isinstance(text, str) else base64.urlsafe_b64encode(text).decode().rstrip("=")
        with pytest.raises(InvalidCursor):
            decode_cursor(Order.NEWEST, cursor)

    short, long = (steps_of(partial(refuse, length)) for length in (10, 100_000))
    assert long <= 2 * short


@given(st.sampled_from(Order), st.integers(1, 2**53 - 1), st.sampled_from(JobPriority), st.datetimes())
def test_a_cursor_keeps_its_position(order: Order, id: int, priority: JobPriority, due_at: Any) -> None:
    position = Position(id, priority, due_at.isoformat(timespec="milliseconds") + "Z")
    cursor = encode_cursor(order, position)
    assert decode_cursor(order, cursor) == position
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([*Order, ""]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.text()
    | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode())
    | st.lists(JSON).map(lambda parts: forged(*parts))
)
def test_no_text_makes_a_cursor_that_is_neither_right_nor_refused(cursor: str) -> None:
    for order in Order:
        try:
            position = decode_cursor(order, cursor)
        except InvalidCursor:
            continue
        assert encode_cursor(order, position) == cursor
        assert (type(position.id), type(position.priority), type(position.due_at)) == (int, int, str)
