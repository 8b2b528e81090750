"""Jobs of the type pdf: a document of text, in the stack's bucket as pdf/<the job's id>.pdf.

Payload: title and text, in which an empty line begins a paragraph. A job that runs twice writes the same object again.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import warnings
from contextlib import closing, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import fontpkg_noto_sans
from botocore.exceptions import ClientError

from queuelog_client import Permanent, Tasks
from tasks._aws import client, outcome_of
from tasks._payload import line, only, text

with warnings.catch_warnings():
    # It misses Pillow, which it needs for images alone: 40 MB of compiled code for two processors.
    warnings.simplefilter("ignore", UserWarning)
    from fpdf import FPDF
    from fpdf.fonts import TTFFont

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from queuelog_client import RunningJob

NEEDS = ("QUEUELOG_DOCUMENT_BUCKET",)
FIELDS = ("title", "text")
MOST_OF_A_TITLE, MOST_OF_A_TEXT = 200, 65_536
#: Characters without a width, such as accents, in a row. They fill no line, and fpdf2 adds up the line at each of its
#: characters: 65,000 would take it minutes.
MOST_MARKS = 4
#: Characters from one stop of a tab to the next.
TAB = 4
FONT = fontpkg_noto_sans.ROOT / "files" / "NotoSans[wdth,wght].ttf"
# The font has them, but they need to be joined to each other, which fpdf2 leaves to a compiled library.
DEVANAGARI = re.compile("[\u0900-\u097f\u1cd0-\u1cff\ua8e0-\ua8ff]")

tasks = Tasks()

# A text with every letter there is takes 60 MB until it is set, and threads that compute at once are no faster.
_setting = threading.Lock()


@tasks.task("pdf", max_seconds=60)
def render(job: RunningJob) -> dict[str, object]:
    """Render the document and put it into the bucket; return where it is."""
    only(job.payload, FIELDS)
    title = line(job.payload, "title", most=MOST_OF_A_TITLE)
    body = text(job.payload, "text", most=MOST_OF_A_TEXT)
    with _setting:
        # It may have waited for longer than it had time.
        job.raise_if_cancelled()
        content, pages = _rendered(title, body, job.created_at)
    bucket, key = os.environ["QUEUELOG_DOCUMENT_BUCKET"], f"pdf/{job.id}.pdf"
    # Somebody else may be at this job by now.
    job.raise_if_cancelled()
    try:
        client("s3").put_object(
            Bucket=bucket, Key=key, Body=content, ContentType="application/pdf", ChecksumAlgorithm="SHA256"
        )
    except ClientError as error:
        raise outcome_of(error) from error
    return {
        "bucket": bucket,
        "key": key,
        "pages": pages,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _rendered(title: str, body: str, created_at: datetime) -> tuple[bytes, int]:
    """Return a document and how many pages it has."""
    with _document() as document:
        _fill(document, title, body)
        # Not the time of day, so that a second run makes the same bytes.
        document.set_creation_date(created_at)
        return bytes(document.output()), document.pages_count


@contextmanager
def _document() -> Iterator[FPDF]:
    document = FPDF(format="A4")
    # It would put the number of pages wherever a text says {nb}.
    document.alias_nb_pages("")
    document.add_font("body", fname=FONT)
    # The font's file stays open otherwise, until the garbage is collected.
    with closing(_font(document).ttfont):
        yield document


def _font(document: FPDF) -> TTFFont:
    font = document.fonts["body"]
    assert isinstance(font, TTFFont)  # noqa: S101  and none of the fourteen that every reader has
    return font


def _fill(document: FPDF, title: str, body: str) -> None:
    missing = sorted(each for each in set(title + body) if not _can_be_set(each, document))
    if missing:
        # Otherwise the reader would find empty boxes in their places.
        named = ", ".join(f"{each!r} (U+{ord(each):04X})" for each in missing[:5])
        raise Permanent(f"There is no way to set {named}: only Latin, Greek and Cyrillic letters.")
    if max(_marks(title, document), _marks(body, document)) > MOST_MARKS:
        raise Permanent(f"There is no way to set more than {MOST_MARKS} accents or others without a width in a row.")
    document.set_title(title)
    document.set_margin(25)
    document.add_page()
    document.set_font("body", size=18)
    document.multi_cell(0, None, title, align="L", new_x="LMARGIN", new_y="NEXT")
    document.set_font("body", size=11)
    # fpdf2 leaves out tabs and the line breaks of old files, and what stands beside them would become one word.
    lines = body.replace("\r\n", "\n").replace("\r", "\n").expandtabs(TAB)
    for paragraph in re.split(r"\n\s*\n", lines.strip()):
        document.ln(4)
        document.multi_cell(0, 6, paragraph, align="L", new_x="LMARGIN", new_y="NEXT")


def _can_be_set(character: str, document: FPDF) -> bool:
    if DEVANAGARI.match(character):
        return False
    return character in "\n\r\t" or ord(character) in _font(document).cmap


def _marks(text: str, document: FPDF) -> int:
    """Return how many characters without a width stand in a row, at the most."""
    widths = _font(document).cw
    runs = groupby(text, lambda character: widths.get(ord(character)) == 0)
    return max((sum(1 for _ in run) for is_bare, run in runs if is_bare), default=0)
