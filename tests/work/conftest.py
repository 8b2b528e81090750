from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from moto import mock_aws

from tasks import _aws
from tests.client.conftest import served, stack, wire  # noqa: F401  (fixtures)

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION: Final = "eu-central-1"


@pytest.fixture(scope="module")
def aws() -> Iterator[Any]:
    """AWS as moto has it, for all tests of a module: to set it up takes longer than they do."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        environment.setenv("AWS_DEFAULT_REGION", REGION)
        forget()
        with mock_aws():
            yield boto3
        forget()


def forget() -> None:
    """Make clients anew, as a new process would."""
    _aws._client.cache_clear()
    _aws._secrets.cache_clear()
