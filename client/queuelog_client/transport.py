"""One call of the HTTP API: its request, its repeats, and its answer or error."""

from __future__ import annotations

import ipaddress
import json
import os
import platform
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from queuelog_client.errors import (
    Fault,
    InvalidRequest,
    NoAnswer,
    QueuelogError,
    TryAgain,
    UnexpectedAnswer,
    error_of,
)
from queuelog_client.job import encode_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queuelog_client.auth import Auth
    from queuelog_client.retries import Retries

VERSION = "0.1.0"
USER_AGENT = f"queuelog-client/{VERSION} python/{platform.python_version()}"


class Answer(NamedTuple):
    """A success: its status, its headers, and its body unless it has none."""

    status: int
    headers: Mapping[str, str]
    body: Any


def checked_url(url: str, *, allow_http: bool) -> str:
    """Return the API's address without a slash or a door at its end; raise ValueError for one that must not be used."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("url must begin with https:// and a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("url must be an address alone: no user, no query, no fragment")
    if parts.scheme == "http" and not (allow_http or _is_this_machine(parts.hostname)):
        raise ValueError(
            "url must be https, since a key would cross the network in clear text; allow_http=True allows it"
        )
    return url.rstrip("/").removesuffix("/iam")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Connections:
    """The connections to one host, kept open and shared between threads; not between a process and its forks."""

    def __init__(self, *, connect_timeout: float, read_timeout: float, most: int) -> None:
        self._timeout = urllib3.Timeout(connect=connect_timeout, read=read_timeout)
        self._most = most
        self._open()

    def _open(self) -> None:
        self._owner = os.getpid()
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=self._most)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
        """Send one request and return its answer, a redirect as well; raise NoAnswer, UnexpectedAnswer."""
        if self._owner != os.getpid():
            self._open()
        try:
            return self._pool.request(
                method, url, headers=headers, body=body or None, retries=False, redirect=False, timeout=self._timeout
            )
        except HTTPError as error:
            if isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
                raise UnexpectedAnswer("The queue's certificate is not valid.") from error
            never_sent = isinstance(error, (ConnectTimeoutError, NewConnectionError))
            kind = type(error).__name__
            raise NoAnswer(f"No answer came from the queue ({kind}).", nothing_done=never_sent) from error

    def close(self) -> None:
        """Close them; the next request opens new ones."""
        self._pool.clear()


class Transport:
    """Calls of one API by one caller."""

    def __init__(self, url: str, auth: Auth, connections: Connections, retries: Retries) -> None:
        self.url = url
        self.connections = connections
        self._auth = auth
        self._retries = retries

    def with_retries(self, retries: Retries) -> Transport:
        """Return the same with other retries, over the same connections."""
        return Transport(self.url, self._auth, self.connections, retries)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Answer:
        """Read something; raise QueuelogError."""
        return self._repeated("GET", path, _query(query or {}), {}, b"", may_repeat=True)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        may_repeat: bool = True,
    ) -> Answer:
        """Do something; raise QueuelogError.

        may_repeat: whether to repeat it when it may have been done; otherwise it is repeated only when it was not.
        """
        said = {name: value for name, value in body.items() if value is not None}
        try:
            content = encode_json(said).encode()
        except (TypeError, ValueError, RecursionError):
            message = "must hold only what JSON can"
            raise InvalidRequest(faults=(Fault("body", "not_json", message),)) from None
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self._repeated("POST", path, "", sent, content, may_repeat=may_repeat)

    def is_healthy(self) -> bool:
        """Ask once, and without credentials, whether the API says that it is well; raise NoAnswer."""
        answer = self.connections.send("GET", f"{self.url}/health", {"User-Agent": USER_AGENT}, b"")
        return answer.status == HTTPStatus.OK

    def _repeated(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, *, may_repeat: bool
    ) -> Answer:
        url = f"{self.url}{self._auth.prefix}{path}{query}"
        began = self._retries.monotonic()
        repeat, may_be_done = 0, False
        while True:
            try:
                return self._once(method, url, headers, body)
            except TryAgain as error:
                may_be_done |= not error.nothing_done
                error.is_repeat = may_be_done
                pause = self._retries.pause(repeat, error.retry_after)
                too_late = self._retries.monotonic() + pause - began > self._retries.seconds
                if repeat >= self._retries.count or too_late or (may_be_done and not may_repeat):
                    raise
            except QueuelogError as error:
                error.is_repeat = may_be_done
                raise
            self._retries.sleep(pause)
            repeat += 1

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        sent = {"Accept": "application/json", "User-Agent": USER_AGENT, **headers}
        # Anew each time: a signature tells the time.
        sent |= self._auth.headers(method, url, sent, body)
        answer = self.connections.send(method, url, sent, body)
        content = _json(answer.data)
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, content, _seconds(answer.headers.get("Retry-After")))
        if content is None and answer.status != HTTPStatus.NO_CONTENT:
            raise UnexpectedAnswer
        return Answer(answer.status, answer.headers, content)


def _query(asked: Mapping[str, object]) -> str:
    # As a signature wants it: a blank is %20 there, and a tilde a tilde.
    text = urlencode([(name, str(value)) for name, value in asked.items() if value is not None], quote_via=quote)
    return f"?{text}" if text else ""


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
