"""Jobs of the type pdf (moto stands in for S3)."""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from queuelog_client import Cancelled, NewJob, RunningJob, Worker
from queuelog_client.testing import InMemoryQueue
from tasks import pdf
from tests.work.conftest import REGION
from tests.work.support import attempted, refused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "documents"
DOCUMENT: dict[str, Any] = {"title": "Überschrift", "text": "Ein Absatz.\n\nΆλλη παράγραφος. Ещё один."}


@pytest.fixture(scope="module")
def storage(aws: Any) -> S3Client:
    client: S3Client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


@pytest.fixture(autouse=True)
def s3(storage: S3Client, monkeypatch: pytest.MonkeyPatch) -> S3Client:
    monkeypatch.setenv("QUEUELOG_DOCUMENT_BUCKET", BUCKET)
    for key in stored(storage):
        storage.delete_object(Bucket=BUCKET, Key=key)
    return storage


def stored(s3: S3Client) -> dict[str, bytes]:
    found = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {each["Key"]: s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found}


def characters(content: bytes) -> set[str]:
    """Return the characters that a document says, for whoever copies its text, that its glyphs stand for."""
    (text,) = [each for each in re.findall(rb"stream\n(.*?)endstream", content, re.DOTALL) if b"beginbfchar" in each]
    return {
        bytes.fromhex(target.decode()).decode("utf-16-be")
        for target in re.findall(rb"<[0-9A-F]{4}> <([0-9A-F]+)>", text.partition(b"beginbfchar")[2])
    }


def drawn(text: str) -> list[bytes]:
    """Return what a reader draws of a text."""
    with pdf._document() as document:
        document.set_compression(compress=False)
        pdf._fill(document, "x", text)
        return re.findall(rb"BT.*?ET", bytes(document.output()), re.DOTALL)


def test_a_document_is_put_under_the_job_s_id_with_the_characters_of_its_text(s3: S3Client) -> None:
    job, outcome = attempted(pdf.tasks, "pdf", DOCUMENT)
    assert outcome == "completed"
    ((key, content),) = stored(s3).items()
    assert job.result == {
        "bucket": BUCKET,
        "key": f"pdf/{job.id}.pdf",
        "pages": 1,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert key == f"pdf/{job.id}.pdf"
    assert content.startswith(b"%PDF-1.")
    assert s3.head_object(Bucket=BUCKET, Key=key)["ContentType"] == "application/pdf"
    said = set("".join(DOCUMENT.values())) - {"\n"}
    assert said - characters(content) == set()


def test_a_second_run_of_the_same_job_leaves_the_same_object(s3: S3Client) -> None:
    queue = InMemoryQueue()
    queue.enqueue(NewJob(type="pdf", payload=DOCUMENT))
    job = queue.claim(lease_seconds=10)
    assert job is not None
    pdf.render(RunningJob(job))
    before = stored(s3)
    queue.clock.advance(seconds=10)
    queue.drain(pdf.tasks)
    assert queue.get(job.id).attempt == 2
    assert stored(s3) == before


def test_a_long_text_has_many_pages() -> None:
    job, _ = attempted(pdf.tasks, "pdf", {"title": "x", "text": "Ein Absatz.\n\n" * 200})
    assert job.result["pages"] > 3


@pytest.mark.parametrize("text", ["{nb}", "a\u0302\u0301\u0323\u0328"])
def test_a_text_is_taken_as_it_stands(s3: S3Client, text: str) -> None:
    assert attempted(pdf.tasks, "pdf", {"title": text, "text": text})[1] == "completed"
    (content,) = stored(s3).values()
    # These two are always there.
    assert characters(content) - {"\0", " "} == set(text)


@pytest.mark.parametrize(
    ("text", "same"), [("a\tb", "a   b"), ("a\rb", "a\nb"), ("a\r\nb", "a\nb"), ("a\r\n\r\nb", "a\n\nb")]
)
def test_tabs_and_the_line_breaks_of_any_system_part_words(text: str, same: str) -> None:
    assert drawn(text) == drawn(same) != drawn("ab")


def test_a_run_that_lost_its_lease_writes_nothing(s3: S3Client) -> None:
    queue = InMemoryQueue()
    queue.enqueue(NewJob(type="pdf", payload=DOCUMENT))
    job = queue.claim()
    assert job is not None
    running = RunningJob(job)
    running.stop("lease_lost")
    with pytest.raises(Cancelled):
        pdf.render(running)
    assert stored(s3) == {}


def test_threads_set_one_document_at_a_time(s3: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    real, both, met = pdf._fill, threading.Barrier(2), []

    def fill(*arguments: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.1)
            met.append(True)
        real(*arguments)

    monkeypatch.setattr(pdf, "_fill", fill)
    queue = InMemoryQueue()
    for _ in range(2):
        queue.enqueue(NewJob(type="pdf", payload=DOCUMENT))
    tally = Worker(queue, pdf.tasks, concurrency=2).run(until_empty=True, seconds=60)
    assert (tally.completed, len(stored(s3)), met) == (2, 2, [])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"title": None}, "The payload's title must be a text of 1 to 200 characters."),
        ({"title": "a\nb"}, "The payload's title must be one line of printable characters."),
        ({"text": []}, "The payload's text must be a text of 1 to 65,536 characters."),
        ({"body": "x"}, "The payload has unknown fields: body. Known are title, text."),
        (
            {"text": "字 ए"},
            "There is no way to set 'ए' (U+090F), '字' (U+5B57): only Latin, Greek and Cyrillic letters.",
        ),
        (
            {"text": "a" + "\u0301" * 5},
            "There is no way to set more than 4 accents or others without a width in a row.",
        ),
    ],
)
def test_a_payload_that_is_no_document_fails_for_good_with_a_sentence(
    s3: S3Client, changes: dict[str, Any], sentence: str
) -> None:
    assert refused(pdf.tasks, "pdf", {**DOCUMENT, **changes}) == sentence
    assert stored(s3) == {}


def test_a_bucket_that_is_not_there_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_DOCUMENT_BUCKET", "elsewhere")
    assert attempted(pdf.tasks, "pdf", DOCUMENT)[1] == "retried"
