"""Jobs of the type email (moto stands in for SES)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ses.models import ses_backends

from tasks import email
from tasks._aws import client
from tests.work.conftest import REGION
from tests.work.support import attempted, refused

if TYPE_CHECKING:
    from collections.abc import Callable

SENDER = "queue@example.com"
MESSAGE: dict[str, Any] = {"to": "ada@example.com", "subject": "Grüße", "text": "Schönen Tag."}


@pytest.fixture(autouse=True)
def sender(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_EMAIL_FROM", SENDER)
    ses_backends[DEFAULT_ACCOUNT_ID][REGION].reset()
    aws.client("sesv2").create_email_identity(EmailIdentity=SENDER)


def sent() -> list[Any]:
    return list(ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages)


def test_a_message_is_sent_and_its_id_is_the_result() -> None:
    job, outcome = attempted(email.tasks, "email", MESSAGE)
    assert outcome == "completed"
    (message,) = sent()
    assert job.result == {"message_id": message.id}
    assert (message.source, message.subject, message.body) == (SENDER, "Grüße", "Schönen Tag.")
    assert message.destinations["ToAddresses"] == ["ada@example.com"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Remember what SES is asked."""
    calls: list[dict[str, Any]] = []
    real = client("sesv2").send_email

    def send_email(**options: Any) -> Any:
        calls.append(options)
        return real(**options)

    monkeypatch.setattr(client("sesv2"), "send_email", send_email)
    return calls


def test_a_message_may_have_many_readers_html_and_an_address_for_answers(asked: list[dict[str, Any]]) -> None:
    to = [f"reader-{number}@example.com" for number in range(50)]
    payload = {**MESSAGE, "to": to, "html": "<p>Schönen Tag.</p>", "reply_to": "help@example.com"}
    job, outcome = attempted(email.tasks, "email", payload)
    assert outcome == "completed"
    (call,) = asked
    assert call["Destination"] == {"ToAddresses": to}
    assert call["ReplyToAddresses"] == ["help@example.com"]
    assert call["Content"]["Simple"]["Body"]["Html"]["Data"] == "<p>Schönen Tag.</p>"
    assert call["EmailTags"] == [{"Name": "job", "Value": str(job.id)}]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"to": None}, "The payload's to must be an e-mail address, or a list of 1 to 50."),
        ({"to": []}, "The payload's to must be"),
        ({"to": ["ada@example.com"] * 51}, "The payload's to must be"),
        ({"to": "ada"}, "The payload's to must be"),
        ({"to": "Ada <ada@example.com>"}, "The payload's to must be"),
        ({"to": "ada@example.com,bob@example.com"}, "The payload's to must be"),
        ({"to": "ada@example.com\nBcc: bob@example.com"}, "The payload's to must be"),
        ({"to": ["ada@example.com", 5]}, "The payload's to must be"),
        ({"reply_to": "x"}, "The payload's reply_to must be an e-mail address."),
        ({"subject": ""}, "The payload's subject must be a text of 1 to 998 characters."),
        ({"subject": "x\nBcc: bob@example.com"}, "The payload's subject must be one line of printable characters."),
        ({"subject": "x" * 999}, "The payload's subject must be a text"),
        ({"text": 5}, "The payload's text must be a text of 1 to 65,536 characters."),
        ({"html": " "}, "The payload's html must be a text"),
        (
            {"bcc": "bob@example.com"},
            "The payload has unknown fields: bcc. Known are to, subject, text, html, reply_to.",
        ),
    ],
)
def test_a_payload_that_is_no_message_fails_for_good_with_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert refused(email.tasks, "email", {**MESSAGE, **changes}).startswith(sentence)
    assert sent() == []


def test_a_sender_that_ses_does_not_know_fails_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_EMAIL_FROM", "nobody@example.net")
    assert refused(email.tasks, "email", MESSAGE).startswith("MessageRejected: ")


def raising(error: Exception) -> Callable[..., Any]:
    def send_email(**_: Any) -> Any:
        raise error

    return send_email


def answered(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "No."}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "SendEmail",
    )


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (answered("TooManyRequestsException", 429), "retried in 30 s"),
        (answered("ThrottlingException", 400), "retried in 30 s"),
        (answered("LimitExceededException", 400), "retried in 30 s"),
        (answered("InternalServiceError", 500), "retried"),
        (answered("AccessDeniedException", 403), "retried"),
        (ReadTimeoutError(endpoint_url="https://email.example"), "retried"),
        (answered("BadRequestException", 400), "failed"),
        (answered("MailFromDomainNotVerifiedException", 400), "failed"),
    ],
)
def test_what_passes_is_tried_again_and_what_does_not_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: str
) -> None:
    monkeypatch.setattr(client("sesv2"), "send_email", raising(error))
    assert attempted(email.tasks, "email", MESSAGE)[1] == outcome
