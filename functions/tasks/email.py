"""Jobs of the type email: a message through Amazon SES.

Payload: to (an address or up to 50), subject, text, and as one pleases html and reply_to. The sender is the parameter
EmailFrom. A job may run twice, and SES has no token by which it would know the second call: a message can come twice.
It carries the tag `job` with the job's id.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from queuelog_client import Permanent, Tasks
from tasks._aws import client, outcome_of
from tasks._payload import line, only, text

if TYPE_CHECKING:
    from queuelog_client import RunningJob

NEEDS = ("QUEUELOG_EMAIL_FROM",)
FIELDS = ("to", "subject", "text", "html", "reply_to")
MOST_RECIPIENTS = 50
#: What SES takes of a header's line, and more than the queue takes of a payload.
MOST_OF_A_LINE, MOST_OF_A_BODY = 998, 65_536
# SES knows which addresses there are; this keeps lists, names and line breaks out.
ADDRESS = re.compile(r"[^\s@,;:<>()\[\]\\\"\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
FINAL = {"BadRequestException", "MailFromDomainNotVerifiedException", "MessageRejected", "NotFoundException"}

tasks = Tasks()


@tasks.task("email", max_seconds=40)
def send(job: RunningJob) -> dict[str, str]:
    """Send the message, and return SES's id of it."""
    only(job.payload, FIELDS)
    message = _message(job.payload)
    try:
        sent = client("sesv2").send_email(
            FromEmailAddress=os.environ["QUEUELOG_EMAIL_FROM"],
            Content={"Simple": message},
            EmailTags=[{"Name": "job", "Value": str(job.id)}],
            **_addresses(job.payload),
        )
    except ClientError as error:
        raise outcome_of(error, final=FINAL) from error
    return {"message_id": sent["MessageId"]}


def _message(payload: dict[str, Any]) -> dict[str, Any]:
    body = {"Text": _utf8(text(payload, "text", most=MOST_OF_A_BODY))}
    if "html" in payload:
        body["Html"] = _utf8(text(payload, "html", most=MOST_OF_A_BODY))
    return {"Subject": _utf8(line(payload, "subject", most=MOST_OF_A_LINE)), "Body": body}


def _addresses(payload: dict[str, Any]) -> dict[str, Any]:
    found = payload.get("to")
    to = found if isinstance(found, list) else [found]
    if not 1 <= len(to) <= MOST_RECIPIENTS or not all(_is_address(each) for each in to):
        raise Permanent(f"The payload's to must be an e-mail address, or a list of 1 to {MOST_RECIPIENTS}.")
    if "reply_to" not in payload:
        return {"Destination": {"ToAddresses": to}}
    if not _is_address(payload["reply_to"]):
        raise Permanent("The payload's reply_to must be an e-mail address.")
    return {"Destination": {"ToAddresses": to}, "ReplyToAddresses": [payload["reply_to"]]}


def _is_address(value: object) -> bool:
    return isinstance(value, str) and ADDRESS.fullmatch(value) is not None


def _utf8(data: str) -> dict[str, str]:
    return {"Data": data, "Charset": "UTF-8"}
