"""Jobs in lines of JSON: what each line says, and which idempotency key it gets."""

from __future__ import annotations

import json
import os
import select
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from queuelog_client.errors import InvalidJob, listed
from queuelog_client.job import MAX_BATCH, JobPriority, NewJob, encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Seconds; what a pipe has brought waits no longer for more.
PAUSE = 1.0
#: The queue takes a batch whose answer has room: in 5,000,000 bytes the jobs, quoted once more, with 20,000 bytes for
#: the other fields of each. A request, of at most 4,000,000, is then small enough as well.
_MOST_BYTES, _BYTES_OF_A_JOB = 4_900_000, 20_000
_FIELDS = tuple(each.name for each in fields(NewJob))


class Line(NamedTuple):
    """A line that is a job."""

    number: int
    job: NewJob


class BadLine(NamedTuple):
    """A line that is none, and why."""

    line: int
    error: str


def as_they_come(file: int) -> Iterator[bytes | None]:
    """Yield the lines of an open file, and None whenever a second passes without any."""
    begun = bytearray()
    content = b"more"
    while content:
        while not select.select([file], [], [], PAUSE)[0]:
            yield None
        content = os.read(file, 65_536)
        end, *lines = content.split(b"\n")
        begun += end
        if lines:
            yield bytes(begun)
            *whole, last = lines
            yield from whole
            begun = bytearray(last)
    yield bytes(begun)


def read_lines(source: Iterable[bytes | None], *, series: str | None) -> Iterator[Line | BadLine | None]:
    """Yield what each line is, and None where None is; empty ones are passed over, but count.

    A job without an idempotency key gets one of what it says and how often that has been said before in these lines.
    So lines keep their keys wherever they move to, two that are equal are two jobs, and one that was changed is
    another. Lines of another series are other jobs.
    """
    said = Counter[bytes]()
    number = 0
    for content in source:
        if content is None:
            yield None
            continue
        number += 1
        if not content.strip():
            continue
        try:
            job = _job(content)
        except InvalidJob as invalid:
            yield BadLine(number, listed(invalid.faults))
        except ValueError as error:
            yield BadLine(number, str(error))
        else:
            yield Line(number, job if job.idempotency_key is not None else _keyed(job, said, series))


def batches(lines: Iterable[Line | BadLine | None]) -> Iterator[tuple[list[Line], list[BadLine]]]:
    """Yield the lines in as many as one request takes or come before a None, each with the bad ones among them."""
    good: list[Line] = []
    bad: list[BadLine] = []
    size = 0
    for line in lines:
        if line is None:
            if good or bad:
                yield good, bad
            good, bad, size = [], [], 0
            continue
        if isinstance(line, BadLine):
            bad.append(line)
            continue
        more = len(encode_json(encode_json(line.job.sent())).encode()) + _BYTES_OF_A_JOB
        if good and (len(good) == MAX_BATCH or size + more > _MOST_BYTES):
            yield good, bad
            good, bad, size = [], [], 0
        good.append(line)
        size += more
    if good or bad:
        yield good, bad


def parsed(text: str) -> Any:
    """Return what JSON says; raise ValueError with a reason, also for a name that is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        # Some of its messages end so themselves.
        raise ValueError(f"it is not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _job(content: bytes) -> NewJob:
    try:
        found = parsed(content.strip().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004  the text is at fault, not the program
    unknown = [name for name in found if name not in _FIELDS]
    if unknown:
        raise ValueError(f"a job has no field {', '.join(unknown)}; its fields are {', '.join(_FIELDS)}")
    return NewJob(**{name: _value(name, value) for name, value in {"type": "", **found}.items()})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"it has {twice} twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _value(name: str, value: Any) -> Any:
    if value is not None and name in {"type", "priority", "idempotency_key", "run_at"} and not isinstance(value, str):
        raise ValueError(f"{name} must be a text")
    if value is None and name == "type":
        raise ValueError("type must be a text")
    if value is None:
        return None
    if name == "priority":
        return JobPriority.from_label(value)
    if name == "run_at":
        return _moment(value)
    return value


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("run_at must be a time such as 2026-01-31T12:00:00Z") from None
    # Without a zone NewJob refuses it: a file means the same on each machine.
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def _keyed(job: NewJob, said: Counter[bytes], series: str | None) -> NewJob:
    content = json.dumps(job.sent(), sort_keys=True)
    name = sha256(content.encode()).digest()
    said[name] += 1
    key = sha256(json.dumps([series, content, said[name]]).encode()).hexdigest()
    return replace(job, idempotency_key=f"line-{key[:40]}")
