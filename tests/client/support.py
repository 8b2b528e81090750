from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from queuelog_client import QueueClient, Retries

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from local.api import LocalApi
    from queuelog_client import WorkQueue
    from tests.support import SteppedClock


@dataclass
class Stack:
    """A running API and who calls it."""

    api: LocalApi
    clock: SteppedClock
    producer: QueueClient
    worker: QueueClient
    admin: QueueClient


@dataclass
class Waits:
    """A clock that only sleeping moves, and what was slept."""

    slept: list[float] = field(default_factory=list)
    now: float = 1_000.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retries(self, *, count: int = 6, seconds: float = 30.0, dice: float = 0.0) -> Retries:
        """Return retries that take no time, and whose random part is this share of the most."""
        return Retries(count=count, seconds=seconds, sleep=self.sleep, monotonic=lambda: self.now, random=lambda: dice)


@dataclass(frozen=True)
class Sent:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Told:
    """An answer to give in the API's place."""

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


def problem(status: int, slug: str, **more: object) -> dict[str, object]:
    """Return the body of a problem."""
    return {
        "type": f"urn:queuelog:problem:{slug}",
        "title": "A title",
        "status": status,
        "detail": "A detail.",
        **more,
    }


#: What the wire does with a request besides telling an answer: the API does what was asked, and its answer is lost; or
#: the API never hears of it.
LOSE_ANSWER, LOSE_REQUEST = "lose the answer", "lose the request"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that hangs up."""


class Wire:
    """A server that passes requests on, but for those that its plan has something else for, one step a request."""

    def __init__(self, target: str | None) -> None:
        self.plan: deque[str | Told | None] = deque()
        self.sent: list[Sent] = []
        self._target = target
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Let it speak TLS from now on."""
        # The handshake belongs to the thread of a connection: here one that fails would take the server with it.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def client(self, key: str = "ql_key_in_the_tests", retries: Retries | None = None) -> QueueClient:
        """Return a client that calls through it, by default with retries that take no time."""
        return QueueClient(self.url, api_key=key, retries=retries or Waits().retries())

    def answer(self, sent: Sent) -> Told | None:
        """Return what comes back for a request; None is a connection that breaks."""
        self.sent.append(sent)
        step = self.plan.popleft() if self.plan else None
        if isinstance(step, Told):
            return step
        if step == LOSE_REQUEST:
            return None
        answer = self._pass_on(sent)
        return None if step == LOSE_ANSWER else answer

    def _pass_on(self, sent: Sent) -> Told:
        assert self._target is not None, f"nothing was planned for {sent.method} {sent.path}"
        connection = http.client.HTTPConnection(urlsplit(self._target).netloc, timeout=30)
        try:
            connection.request(sent.method, sent.path, sent.body or None, dict(sent.headers))
            found = connection.getresponse()
            body = found.read()
            headers = {name: value for name, value in found.headers.items() if name != "Content-Length"}
            return Told(found.status, body, headers)
        finally:
            connection.close()

    def _handler(wire) -> type[BaseHTTPRequestHandler]:  # noqa: N805  the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                told = wire.answer(Sent(self.command, self.path, dict(self.headers.items()), body))
                if told is None:
                    self.close_connection = True
                    return
                content = told.body if isinstance(told.body, bytes) else _encoded(told.body)
                self.send_response_only(told.status)
                for name, value in told.headers.items():
                    self.send_header(name, value)
                if told.status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _encoded(body: object) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


Act = Callable[[], Any]


class Watched:
    """A queue before which something can be planned for each call of a verb, and that remembers what it was asked."""

    def __init__(self, queue: WorkQueue) -> None:
        self.queue = queue
        self.plan: dict[str, deque[Callable[[Act], Any]]] = {
            verb: deque() for verb in ("claim_jobs", "finish_jobs", "heartbeat_jobs")
        }
        self.asked: list[tuple[str, Any]] = []

    def claim_jobs(self, **options: Any) -> Any:
        return self._call("claim_jobs", options, lambda: self.queue.claim_jobs(**options))

    def finish_jobs(self, endings: Any, /) -> Any:
        return self._call("finish_jobs", list(endings), lambda: self.queue.finish_jobs(endings))

    def heartbeat_jobs(self, beats: Any, /) -> Any:
        return self._call("heartbeat_jobs", list(beats), lambda: self.queue.heartbeat_jobs(beats))

    def asked_for(self, verb: str) -> list[Any]:
        """Return what each call of a verb came with."""
        return [said for name, said in self.asked if name == verb]

    def _call(self, verb: str, said: Any, act: Act) -> Any:
        self.asked.append((verb, said))
        steps = self.plan[verb]
        return steps.popleft()(act) if steps else act()


def fail_with(error: Exception) -> Callable[[Act], Any]:
    """Return a step that does nothing and raises."""

    def step(_: Act) -> Any:
        raise error

    return step


def do_and_fail_with(error: Exception) -> Callable[[Act], Any]:
    """Return a step that does what was asked, and then raises all the same."""

    def step(act: Act) -> Any:
        act()
        raise error

    return step


def self_signed(host: str) -> bytes:
    """Return a certificate for this host, which nobody vouches for but itself, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
