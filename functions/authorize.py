"""Who is calling: the key in X-Api-Key, looked up in the registry (API Gateway's Lambda authoriser, of type TOKEN)."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parameters import SecretsProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.config import Config
from botocore.exceptions import ClientError

from queuelog.clock import timestamp
from queuelog.errors import InvalidRegistry
from queuelog.registry import Registry, key_id
from web.clock import clock_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from queuelog.principal import Principal

SECRET_LIFETIME = timedelta(seconds=60)
#: A file costs nothing to read, so that a key made locally works at once.
FILE_LIFETIME = timedelta(0)
#: How old a registry that can't be read again may grow: a key revoked meanwhile works for as long.
STALE_LIMIT = timedelta(minutes=5)
RETRY_AFTER = timedelta(seconds=5)
#: Both tries together stay well inside the function's timeout, so that a stale registry can still be served.
IMPATIENT = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"})

NOT_READ = "The registry of API keys was not read; the last good one serves until it is five minutes old"

logger = Logger()


# Without Powertools' inject_lambda_context: one environment variable makes it log the event, which holds the key.
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return a policy for the whole stage, Allow or Deny; raise InvalidRegistry when no usable registry is at hand.

    Raising is API Gateway's 500, which callers repeat and nothing caches. A Deny would blame their keys for a minute.
    """
    now = clock_of(context).now()
    key = str(event.get("authorizationToken") or "")
    principal = _registry().at(now).authenticate(key, now)
    logger.info(
        "authorization",
        outcome="allowed" if principal else "denied",
        principal=principal.name if principal else None,
        key_id=key_id(key),
        request_id=context.aws_request_id,
    )
    return _allow(principal, event["methodArn"]) if principal else _policy("unknown", "Deny", "*")


class CachedRegistry:
    """The registry as last read; when it can't be read again, the last good one serves until it is five minutes old."""

    def __init__(self, read: Callable[[], str], lifetime: timedelta) -> None:
        self._read = read
        self._lifetime = lifetime
        self._registry: Registry | None = None
        self._text: str | None = None
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._next_try = timedelta(0)

    def at(self, now: datetime) -> Registry:
        """Return the registry, read within its lifetime; raise InvalidRegistry if the last good one is too old."""
        if not _within(self._tried_at, self._next_try, now):
            self._refresh(now)
        if self._registry is None or not _within(self._read_at, STALE_LIMIT, now):
            raise InvalidRegistry("No registry of API keys could be read in the last five minutes; the log says why.")
        return self._registry

    def _refresh(self, now: datetime) -> None:
        self._tried_at = now
        self._next_try = min(RETRY_AFTER, self._lifetime)
        try:
            text = self._read()
            if self._registry is None or text != self._text:
                self._registry = Registry.parse(text)
        except (GetParameterError, InvalidRegistry, OSError) as error:
            last_read_at = timestamp(self._read_at) if self._read_at else None
            logger.error(NOT_READ, reason=str(error), last_read_at=last_read_at)  # noqa: TRY400 (the reason says it all)
            return
        self._text = text
        self._read_at = now
        self._next_try = self._lifetime


def _registry() -> CachedRegistry:
    return _cached(os.environ.get("QUEUELOG_REGISTRY_SECRET", ""), os.environ.get("QUEUELOG_REGISTRY_FILE", ""))


@cache
def _cached(secret: str, file: str) -> CachedRegistry:
    if secret:
        return CachedRegistry(_secret_reader(secret), SECRET_LIFETIME)
    if file:
        return CachedRegistry(_file_reader(Path(file)), FILE_LIFETIME)
    raise InvalidRegistry("Set QUEUELOG_REGISTRY_SECRET to the ARN of the secret that holds the API keys.")


def _secret_reader(secret: str) -> Callable[[], str]:
    provider = SecretsProvider(boto_config=IMPATIENT)

    def read() -> str:
        try:
            # max_age=0: Powertools' cache forgets at its end, and a value is needed past it when there is no newer one.
            value = provider.get(secret, max_age=0)
        except GetParameterError as error:
            if _has_no_value(error):
                return ""
            raise
        return value if isinstance(value, str) else bytes(value or b"").decode(errors="replace")

    return read


def _has_no_value(error: GetParameterError) -> bool:
    # The stack makes the secret without a value, which Secrets Manager says with this error; Powertools wraps it.
    cause = error.__context__
    return isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "ResourceNotFoundException"


def _file_reader(path: Path) -> Callable[[], str]:
    def read() -> str:
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    return read


def _within(since: datetime | None, span: timedelta, now: datetime) -> bool:
    # A clock that was set back must not keep a registry fresh for as long as it was set back.
    return since is not None and timedelta(0) <= now - since < span


def _allow(principal: Principal, method_arn: str) -> dict[str, Any]:
    # The answer is cached for the key, whatever the route, so that it must hold for every route of the stage.
    api, stage = method_arn.split("/")[:2]
    # API Gateway passes the context on as text; without `types` the principal may use every type.
    context = {"name": principal.name, "roles": ",".join(sorted(principal.roles))}
    if principal.max_priority is not None:
        context["max_priority"] = principal.max_priority.label
    if principal.types is not None:
        context["types"] = json.dumps(sorted(principal.types))
    return {**_policy(principal.name, "Allow", f"{api}/{stage}/*"), "context": context}


def _policy(principal_id: str, effect: str, resource: str) -> dict[str, Any]:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": resource}
    return {"principalId": principal_id, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
