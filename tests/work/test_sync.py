"""Jobs of the type sync: what is sent, to whom it is not sent, and what becomes of each answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from tasks import _aws, sync
from tests.client.support import Told, Wire, self_signed
from tests.work.support import attempted, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "hooks.example"
# As Secrets Manager makes it.
SECRET = "aZ09" * 12
BODY = {"event": "order.paid", "number": 5, "text": "Grüße"}


class Names:
    """A resolver that knows one name, and how often it was asked for it."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *options: Any, **more: Any) -> Any:
        if host != HOST:
            return self._real(host, port, *options, **more)
        addresses = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of HOST with its key."""
    pem = tmp_path_factory.mktemp("tls") / "server.pem"
    pem.write_bytes(self_signed(HOST))
    return pem


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names(["127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


@pytest.fixture
def receiver(certificate: Path, names: Names, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Whoever answers for HOST, with a certificate that is trusted; this machine counts as public here."""
    monkeypatch.setattr(sync, "secret", {"arn:of-the-secret": SECRET}.__getitem__)
    monkeypatch.setenv("QUEUELOG_WEBHOOK_SECRET", "arn:of-the-secret")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr(sync, "_is_public", lambda address: address.is_loopback)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Wire(None) as wire:
        wire.encrypt(context)
        port = wire.url.rpartition(":")[2]
        monkeypatch.setenv("QUEUELOG_WEBHOOK_TARGETS", f"other.example,{HOST}:{port}")
        wire.url = f"https://{HOST}:{port}"
        yield wire


def outcome(receiver: Wire, *told: Told) -> str:
    receiver.plan.extend(told)
    return attempted(sync.tasks, "sync", {"url": f"{receiver.url}/in?a=1", "body": BODY})[1]


def test_a_webhook_is_sent_as_the_specification_has_it(receiver: Wire) -> None:
    receiver.plan.append(Told(204))
    before = int(time.time())
    job, _ = attempted(sync.tasks, "sync", {"url": f"{receiver.url}/in?a=1", "body": BODY})
    assert (job.status, job.result) == ("completed", {"status": 204})
    (sent,) = receiver.sent
    assert (sent.method, sent.path, sent.json) == ("POST", "/in?a=1", BODY)
    assert sent.headers["Host"] == receiver.url.removeprefix("https://")
    assert sent.headers["Content-Type"] == "application/json"
    id, timestamp = sent.headers["webhook-id"], sent.headers["webhook-timestamp"]
    assert id == f"job_{job.id}"
    assert before <= int(timestamp) <= time.time()
    content = f"{id}.{timestamp}.".encode() + sent.body
    digest = hmac.new(base64.b64decode(SECRET), content, hashlib.sha256).digest()
    assert sent.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def test_the_signature_is_the_one_of_the_specification_s_own_test_vector() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sync.signed("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', key)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_id_stays_and_the_time_is_new_in_each_attempt(receiver: Wire) -> None:
    assert outcome(receiver, Told(500), Told(204)) == "completed"
    assert {sent.headers["webhook-id"] for sent in receiver.sent} == {"job_1"}
    assert len(receiver.sent) == 2


def test_the_secret_comes_from_secrets_manager(aws: Any) -> None:
    arn = aws.client("secretsmanager").create_secret(Name="webhooks", SecretString=SECRET)["ARN"]
    assert _aws.secret(arn) == SECRET


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://hooks.example/in", "The payload's url must be https, without a user and without a fragment."),
        ("ftp://hooks.example/in", "The payload's url must be https"),
        ("https://ada@hooks.example/in", "The payload's url must be https"),
        ("https://@hooks.example/in", "The payload's url must be https"),
        ("https://hooks.example/in#part", "The payload's url must be https"),
        ("https://hooks.example.evil.example/", "The host of the payload's url is not one of WebhookTargets."),
        ("https://sub.hooks.example/", "The host of the payload's url is not one"),
        ("https://hooks.example./", "The host of the payload's url is not one"),
        ("https://hooks.example:8443/", "The host of the payload's url is not one"),
        ("https://evil.example/?hooks.example", "The host of the payload's url is not one"),
        ("https://evil.example\\@hooks.example/", "The payload's url must be printable ASCII"),
        ("https://hooks.example\t/", "The payload's url must be printable ASCII"),
        ("https://hooks.example/\r\nX: y", "The payload's url must be printable ASCII"),
        ("https://hooks。example/", "The payload's url must be printable ASCII"),
        ("https://169.254.169.254/latest/meta-data", "The host of the payload's url is not one"),
        ("https://[::1]/", "The host of the payload's url is not one"),
        ("https:///in", "The host of the payload's url is not one"),
        ("https:in", "The host of the payload's url is not one"),
        ("https://hooks.example:99999/", "The payload's url can't be read."),
        ("https://[hooks.example/", "The payload's url can't be read."),
        ("", "The payload's url must be a text of 1 to 2,000 characters."),
    ],
)
def test_nobody_else_is_called(names: Names, monkeypatch: pytest.MonkeyPatch, url: str, sentence: str) -> None:
    # With a comma too many, as the parameter may have it.
    monkeypatch.setenv("QUEUELOG_WEBHOOK_TARGETS", f"other.example,,{HOST}")
    assert refused(sync.tasks, "sync", {"url": url, "body": {}}).startswith(sentence)
    assert names.asked == 0


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "224.0.0.1"],
)
def test_a_name_that_leads_into_a_network_of_ones_own_is_not_called(
    receiver: Wire, names: Names, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setattr(sync, "secret", lambda _: SECRET)
    monkeypatch.setenv("QUEUELOG_WEBHOOK_SECRET", "x")
    monkeypatch.setenv("QUEUELOG_WEBHOOK_TARGETS", receiver.url.removeprefix("https://"))
    names.answers = [["93.184.216.34", address]]
    said = refused(sync.tasks, "sync", {"url": receiver.url, "body": {}})
    assert said == "The host of the payload's url has an address that is not public."
    assert receiver.sent == []


def test_the_connection_goes_to_the_address_that_was_looked_at(receiver: Wire, names: Names) -> None:
    # The second answer is another's, as that of a name that is bound anew.
    names.answers = [["127.0.0.1"], ["10.0.0.1"]]
    assert outcome(receiver, Told(204)) == "completed"
    assert names.asked == 1


def test_a_certificate_that_nobody_vouches_for_gets_no_webhook(receiver: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    assert outcome(receiver) == "retried"
    assert receiver.sent == []


def test_a_name_that_leads_nowhere_is_tried_again(receiver: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    assert outcome(receiver) == "retried"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (Told(200, "x" * 1_000_000), "completed"),
        (Told(302, headers={"Location": "https://evil.example/"}), "failed"),
        (Told(400), "failed"),
        (Told(410), "failed"),
        (Told(408), "retried"),
        (Told(425), "retried"),
        (Told(429), "retried"),
        (Told(429, headers={"Retry-After": "40"}), "retried in 40 s"),
        (Told(503, headers={"Retry-After": "0"}), "retried in 1 s"),
        (Told(503, headers={"Retry-After": "999999999"}), "retried"),
        (Told(503, headers={"Retry-After": "soon"}), "retried"),
        (Told(500, headers={"Retry-After": "40"}), "retried"),
        (Told(502), "retried"),
    ],
)
def test_what_an_answer_means_for_the_job(receiver: Wire, told: Told, expected: str) -> None:
    assert outcome(receiver, told, told) == expected


def test_a_retry_after_may_be_a_time(receiver: Wire) -> None:
    at = datetime.now(UTC) + timedelta(seconds=100)
    said = outcome(receiver, Told(503, headers={"Retry-After": format_datetime(at, usegmt=True)}))
    assert said in {"retried in 98 s", "retried in 99 s", "retried in 100 s"}


@pytest.mark.parametrize("value", ["Mon, 30 Nov 99999999999 08:00:00 GMT", "Mon, 30 Nov 2026 08:00:00 +99999999999999"])
def test_a_retry_after_that_is_no_time_says_nothing(receiver: Wire, value: str) -> None:
    receiver.plan.extend([Told(503, headers={"Retry-After": value})] * 2)
    job, _ = attempted(sync.tasks, "sync", {"url": receiver.url, "body": {}})
    assert job.error == "ConnectionError: The receiver answered 503."


def test_a_connection_that_breaks_is_tried_again(receiver: Wire) -> None:
    assert outcome(receiver, *["lose the request"] * 2) == "retried"  # type: ignore[arg-type]
    assert len(receiver.sent) == 2


def test_an_answer_that_comes_byte_by_byte_is_cut_off(
    certificate: Path, receiver: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    cut = []

    def drip(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _address = listener.accept()
            with context.wrap_socket(connection, server_side=True) as encrypted:
                # A byte well within the time of a step, for longer than all of them may take.
                try:
                    for _ in range(100):
                        encrypted.send(b"H")
                        time.sleep(0.02)
                except OSError:
                    cut.append(True)

    monkeypatch.setattr(sync, "ALL", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        monkeypatch.setenv("QUEUELOG_WEBHOOK_TARGETS", f"{HOST}:{port}")
        result = attempted(sync.tasks, "sync", {"url": f"https://{HOST}:{port}/", "body": {}})[1]
        thread.join()
    assert (result, cut) == ("retried", [True, True])


@pytest.mark.parametrize("payload", [{"url": "https://hooks.example"}, {"url": 5, "body": {}}, {"uri": "x", "body": 1}])
def test_a_payload_that_is_no_webhook_fails_for_good(monkeypatch: pytest.MonkeyPatch, payload: dict[str, Any]) -> None:
    monkeypatch.setenv("QUEUELOG_WEBHOOK_TARGETS", HOST)
    assert refused(sync.tasks, "sync", payload).startswith("The payload")


def test_what_is_sent_is_what_was_signed(receiver: Wire) -> None:
    outcome(receiver, Told(204))
    (sent,) = receiver.sent
    assert sent.body == json.dumps(BODY, ensure_ascii=False, separators=(",", ":")).encode()
