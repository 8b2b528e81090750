"""What a command needs besides the queue's API: the time, AWS, the queue's core."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.cli.settings import WrongSetting

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Outside:
    """The world around a command; click's context may hold another one as its object."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: Makes a client of an AWS service; None is boto3's way.
    client: Callable[..., Any] | None = None
    #: Where Linux says what is mounted.
    mounts: Path = Path("/proc/self/mountinfo")

    def aws(self, service: str, **options: Any) -> Any:
        """Return a client of an AWS service; raise botocore's errors."""
        if self.client is not None:
            return self.client(service, **options)
        import boto3  # noqa: PLC0415  an extra of this package

        client: Callable[..., Any] = boto3.Session().client
        return client(service, **options)


def outside() -> Outside:
    """Return what the command that runs was given."""
    found = click.get_current_context().find_object(Outside)
    return found or Outside()


def require_core() -> None:
    """Raise WrongSetting unless the queue's core is installed."""
    try:
        import queuelog  # noqa: F401, PLC0415  most commands do without it
    except ImportError as error:
        message = "This needs the queue's core: pip install ./layers/queuelog, in a copy of the repository."
        raise WrongSetting(message) from error


def require_aws() -> None:
    """Raise WrongSetting unless boto3 is installed."""
    try:
        import boto3  # noqa: F401, PLC0415  an extra of this package
    except ImportError as error:
        raise WrongSetting('This needs boto3: pip install "./client[aws]", in a copy of the repository.') from error
