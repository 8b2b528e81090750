"""Clients of AWS, and what to make of their errors."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools.utilities.parameters import SecretsProvider
from botocore.config import Config

from queuelog_client import Permanent, RetryIn

if TYPE_CHECKING:
    from collections.abc import Collection

    from botocore.exceptions import ClientError

#: Seconds until a job that was slowed down is tried again; the queue's own first retry is at once.
PAUSE = 30
THROTTLED = {"LimitExceededException", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException"}
#: All tries of a call together stay inside a task's deadline.
CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"})

#: Seconds for which a secret is kept.
SECRET_LIFETIME = 300

# Threads may share a client, but not the session that makes it.
_making = threading.Lock()


def client(service: str) -> Any:
    """Return this process's client of a service, which its threads share."""
    with _making:
        return _client(service)


def secret(name: str) -> str:
    """Return the text of a secret, as it was five minutes ago at the most."""
    with _making:
        return str(_secrets().get(name, max_age=SECRET_LIFETIME))


@cache
def _client(service: str) -> Any:
    return boto3.client(service, config=CONFIG)  # type: ignore[call-overload]


@cache
def _secrets() -> SecretsProvider:
    return SecretsProvider(boto_config=CONFIG)


def outcome_of(error: ClientError, *, final: Collection[str] = ()) -> Exception:
    """Return what a handler raises for an error that AWS answered: a Permanent for the codes that no retry changes."""
    code, said = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    if code in final:
        return Permanent(f"{code}: {said}")
    if code in THROTTLED:
        return RetryIn(PAUSE, f"{code}: {said}")
    return error
