"""Who is calling, from what API Gateway put into the event; nothing that the caller wrote is asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from queuelog.errors import Forbidden
from queuelog.job import JobPriority
from queuelog.principal import Principal, Role
from web.problems import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from web.settings import Settings

_SESSION_ARN = re.compile(
    r"arn:aws[a-z-]*:sts::(?P<account>\d{12}):assumed-role/(?P<role>[\w+=,.@-]{1,64})/(?P<session>[\w+=,.@-]{2,64})",
    re.ASCII,
)


def principal_of(event: Mapping[str, Any], settings: Settings) -> Principal:
    """Return the principal of an event; raise Unauthorized when neither door let it in, Forbidden without a role."""
    request = event.get("requestContext") or {}
    claims = request.get("authorizer") or {}
    user_arn = (request.get("identity") or {}).get("userArn")
    if "roles" in claims:
        return _of_key(claims)
    if user_arn:
        return _of_signature(user_arn, settings)
    raise Unauthorized


def _of_key(claims: Mapping[str, str]) -> Principal:
    # API Gateway passes the authoriser's context on as strings; a list is JSON in one of them.
    types = claims.get("types")
    return Principal(
        name=claims["name"],
        roles=frozenset(Role(role) for role in claims["roles"].split(",") if role),
        types=None if types is None else frozenset(json.loads(types)),
        max_priority=JobPriority.from_label(claims["max_priority"]),
    )


def _of_signature(user_arn: str, settings: Settings) -> Principal:
    session = _SESSION_ARN.fullmatch(user_arn)
    roles = settings.iam_roles.get((session["account"], session["role"])) if session else None
    if session is None or roles is None:
        raise Forbidden("Your IAM identity has no role here: an operator has to add its role's ARN to the stack.")
    # The session's name changes at every restart, so jobs and idempotency keys belong to the role.
    name = f"{session['account']}:role/{session['role']}"
    return Principal(name=name, roles=roles, worker_id=f"{name}/{session['session']}")
