from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from queuelog.job import TYPE_PATTERN
from queuelog.policy import Policy
from queuelog.principal import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):role/(?:.*/)?(?P<name>[\w+=,.@-]{1,64})", re.ASCII)

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Settings:
    """What the template tells the functions, read and checked once at cold start."""

    database: Path
    job_types: frozenset[str]
    #: The queue's roles of each IAM role, by (account, role name): the ARN of a session has lost the role's path.
    iam_roles: Mapping[tuple[str, str], frozenset[Role]]
    policy: Policy

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """Read the environment; raise ValueError with a sentence for a missing or wrong value."""
        try:
            database = environment["QUEUELOG_DATABASE"]
        except KeyError:
            raise ValueError("QUEUELOG_DATABASE is not set: it is the path of the queue's SQLite file") from None
        job_types = _listed(environment, "QUEUELOG_JOB_TYPES")
        for job_type in job_types:
            if not re.fullmatch(TYPE_PATTERN, job_type):
                raise ValueError(f"QUEUELOG_JOB_TYPES holds {job_type!r}, which does not match {TYPE_PATTERN}")
        return cls(Path(database), frozenset(job_types), _iam_roles(environment), _policy(environment))


@cache
def settings() -> Settings:
    """Return the settings of this process's environment."""
    return Settings.of(os.environ)


def _iam_roles(environment: Mapping[str, str]) -> dict[tuple[str, str], frozenset[Role]]:
    found: dict[tuple[str, str], frozenset[Role]] = {}
    for role in Role:
        variable = f"QUEUELOG_{role.name}_ROLE_ARNS"
        for arn in _listed(environment, variable):
            match = _ROLE_ARN.fullmatch(arn)
            if match is None:
                raise ValueError(f"{variable} holds {arn!r}, which is not the ARN of an IAM role")
            who = (match["account"], match["name"])
            found[who] = found.get(who, frozenset()) | {role}
    return found


def _policy(environment: Mapping[str, str]) -> Policy:
    defaults = Policy()
    return Policy(
        lease_seconds=_number(environment, "QUEUELOG_LEASE_SECONDS", defaults.lease_seconds),
        backoff_seconds=_number(environment, "QUEUELOG_BACKOFF_SECONDS", defaults.backoff_seconds),
        backoff_cap_seconds=_number(environment, "QUEUELOG_BACKOFF_CAP_SECONDS", defaults.backoff_cap_seconds),
        keep_completed_seconds=DAY
        * _number(environment, "QUEUELOG_KEEP_COMPLETED_DAYS", defaults.keep_completed_seconds // DAY),
        keep_failed_seconds=DAY
        * _number(environment, "QUEUELOG_KEEP_FAILED_DAYS", defaults.keep_failed_seconds // DAY),
    )


def _number(environment: Mapping[str, str], variable: str, default: int) -> int:
    text = environment.get(variable, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"{variable} is {text!r}, which is not a number")
    return int(text)


def _listed(environment: Mapping[str, str], variable: str) -> list[str]:
    return [part.strip() for part in environment.get(variable, "").split(",") if part.strip()]
