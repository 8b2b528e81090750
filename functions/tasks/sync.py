"""Jobs of the type sync: a signed webhook, as the Standard Webhooks specification 1.0.0 has it.

Payload: url, and body, which is sent as JSON. The parameter WebhookTargets lists the hosts that may be called. The
headers are webhook-id, which is the same in each attempt of a job, so that the receiver can do it once;
webhook-timestamp; and webhook-signature, an HMAC-SHA256 of the id, the time and the body, joined by dots.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from queuelog_client import Permanent, RetryIn, Tasks
from tasks._aws import secret
from tasks._payload import only, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuelog_client import RunningJob

NEEDS = ("QUEUELOG_WEBHOOK_TARGETS", "QUEUELOG_WEBHOOK_SECRET")
FIELDS = ("url", "body")
MOST_OF_A_URL = 2_000
HTTPS = 443
#: Seconds: for each step, and for all of them together, however slowly the other side lets its answer drip.
STEP, ALL = 10.0, 25.0
#: Client errors that are about the moment and not about the request: a time-out, too early, too many.
PASSING = {408, 425, 429}
LONGEST_RETRY = 2_592_000

tasks = Tasks()


class Target(NamedTuple):
    """Where to send a webhook."""

    host: str
    port: int
    path: str

    @property
    def name(self) -> str:
        """The host as WebhookTargets has it."""
        return self.host if self.port == HTTPS else f"{self.host}:{self.port}"


class Answer(NamedTuple):
    """What the receiver said; its body is not read."""

    status: int
    retry_after: str | None


@tasks.task("sync", max_seconds=90)
def post(job: RunningJob) -> dict[str, int]:
    """Send the webhook, and return the status of its answer."""
    only(job.payload, FIELDS)
    target = _target(text(job.payload, "url", most=MOST_OF_A_URL))
    if "body" not in job.payload:
        raise Permanent("The payload has no body.")
    body = json.dumps(job.payload["body"], ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "queuelog-sync/1",
        **signed(f"job_{job.id}", int(time.time()), body, _signing_key()),
    }
    answer = _sent(target, _address(target), headers, body)
    if 200 <= answer.status < 300:
        return {"status": answer.status}
    raise _failure(answer)


def signed(id: str, timestamp: int, body: bytes, key: bytes) -> dict[str, str]:
    """Return the headers by which a receiver knows who sent this body, and when."""
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _signing_key() -> bytes:
    # The stack makes one that is base64 as it stands; receivers know it as whsec_ and this text.
    return base64.b64decode(secret(os.environ["QUEUELOG_WEBHOOK_SECRET"]).removeprefix("whsec_"), validate=True)


def _target(url: str) -> Target:
    # The standard library drops line breaks and tabs from a URL, and others don't.
    if not re.fullmatch(r"[\x21-\x7e]+", url) or "\\" in url:
        raise Permanent("The payload's url must be printable ASCII without blanks and backslashes.")
    try:
        parts = urlsplit(url)
        target = Target(parts.hostname or "", parts.port or HTTPS, parts.path or "/")
    except ValueError as error:
        raise Permanent("The payload's url can't be read.") from error
    if parts.scheme != "https" or "@" in parts.netloc or parts.fragment:
        raise Permanent("The payload's url must be https, without a user and without a fragment.")
    if not target.host or target.name not in os.environ["QUEUELOG_WEBHOOK_TARGETS"].split(","):
        raise Permanent("The host of the payload's url is not one of WebhookTargets.")
    return target._replace(path=f"{target.path}?{parts.query}" if parts.query else target.path)


def _address(target: Target) -> str:
    """Return the address to connect to: a name that may be called must not lead into somebody's own network."""
    # Lambda's way to the internet is IPv4.
    found = socket.getaddrinfo(target.host, target.port, socket.AF_INET, socket.SOCK_STREAM)
    addresses = [str(sockaddr[0]) for *_, sockaddr in found]
    if not all(_is_public(IPv4Address(address)) for address in addresses):
        raise Permanent("The host of the payload's url has an address that is not public.")
    return addresses[0]


def _is_public(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast


def _sent(target: Target, address: str, headers: dict[str, str], body: bytes) -> Answer:
    # To the address that was looked at: to ask for it again could bring another.
    with _ended_in_time(socket.create_connection((address, target.port), timeout=STEP)) as line:
        connection = http.client.HTTPSConnection(target.host, target.port)
        connection.sock = ssl.create_default_context().wrap_socket(line, server_hostname=target.host)
        try:
            connection.request("POST", target.path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers.get("Retry-After"))
        except http.client.HTTPException as error:
            raise ConnectionError("The receiver's answer can't be read.") from error
        finally:
            connection.close()


@contextmanager
def _ended_in_time(line: socket.socket) -> Iterator[socket.socket]:
    """Cut a connection when all its time is over; a time-out of the socket begins anew with each byte."""
    # A second handle on the connection: the first becomes the encrypted one's, which only its own thread may touch.
    with line, line.dup() as handle:
        timer = threading.Timer(ALL, _cut, [handle])
        timer.start()
        try:
            yield line
        finally:
            timer.cancel()
            timer.join()


def _cut(handle: socket.socket) -> None:
    try:
        handle.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The other side was faster.
        return


def _failure(answer: Answer) -> Exception:
    said = f"The receiver answered {answer.status}."
    if 300 <= answer.status < 400:
        return Permanent(f"{said} Redirects are not followed.")
    if 400 <= answer.status < 500 and answer.status not in PASSING:
        return Permanent(said)
    seconds = _seconds(answer.retry_after)
    if answer.status in {429, 503} and seconds is not None:
        return RetryIn(seconds, said)
    return ConnectionError(said)


def _seconds(retry_after: str | None) -> int | None:
    """Return the seconds that a Retry-After asks for, which is a number or a time; None if it says nothing."""
    value = (retry_after or "").strip()
    seconds: float
    if re.fullmatch(r"[0-9]{1,9}", value):
        seconds = int(value)
    else:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (OverflowError, ValueError):
            return None
    return int(min(max(seconds, 1), LONGEST_RETRY))
