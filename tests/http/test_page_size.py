"""A page of jobs fits into what Lambda may answer, whatever the payloads hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, success

if TYPE_CHECKING:
    from tests.http.support import Answer, Api

#: Lambda refuses more than 6 MB; a page stops before 5.
MOST = 5_000_000
#: Payloads of 65,536 bytes in all, which grow by very different factors when the body is quoted once more.
PAYLOADS: dict[str, dict[str, Any]] = {
    "ASCII": {"a": "x" * 65_528},
    "quotes": {"a": '"' * 32_764},
    "backslashes": {"a": "\\" * 32_764},
    "control characters": {"a": "\x01" * 10_921},
    "four-byte characters": {"a": "😀" * 16_382},
}


@pytest.mark.parametrize("query", [{}, {"status": "pending", "order": "queue"}], ids=["newest", "queue"])
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_page_ends_before_lambda_would_refuse_it(api: Api, payload: dict[str, Any], query: dict[str, str]) -> None:
    for _ in range(80):
        api.new_job(ADMIN, payload=payload)
    pages = all_pages(api, **query)
    assert all(page.lambda_bytes < MOST for page in pages)
    # As full as can be: one more job might not have fitted.
    assert all(page.lambda_bytes > MOST - 1_200_000 for page in pages[:-1])
    assert len(pages) > 1
    ids = [job["id"] for page in pages for job in page.body["jobs"]]
    assert sorted(ids) == list(range(1, 81))


def test_everything_else_of_a_job_counts_as_well(api: Api) -> None:
    error = "“Zoë” 日本 \x01😀" * 60
    for number in range(100):
        job = api.new_job(ADMIN, idempotency_key=f"{number:03}{'😀' * 252}", payload={"a": '"' * 31_000})
        api.claimed_job(ADMIN)
        success(api.fail(job["id"], ADMIN, error=error))
        api.claimed_job(ADMIN)
        success(api.complete(job["id"], ADMIN))
    pages = all_pages(api)
    assert all(page.lambda_bytes < MOST for page in pages)
    assert sum(len(page.body["jobs"]) for page in pages) == 100


def test_small_jobs_are_as_many_as_asked_for(api: Api) -> None:
    for _ in range(101):
        api.new_job()
    assert len(success(api.list(limit="100"))["jobs"]) == 100


def all_pages(api: Api, **query: str) -> list[Answer]:
    pages = [api.list(limit="100", **query)]
    while (cursor := success(pages[-1])["next_cursor"]) is not None:
        pages.append(api.list(limit="100", cursor=cursor, **query))
    return pages
