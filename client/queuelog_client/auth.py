"""Who is calling: the header of a key, or the signature of AWS credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from queuelog_client.errors import NoAnswer, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

#: https://<id>.execute-api.<region>.amazonaws.com
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.")


class Auth(Protocol):
    """Lets requests in by one of the API's two doors."""

    #: What the door's paths begin with.
    prefix: str

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers that this request needs besides its own."""


class ApiKey:
    """A key, which no text of this object shows."""

    prefix = ""

    def __init__(self, key: str) -> None:
        # http.client would name a header that can't be sent, with its value, in the error.
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise ValueError("api_key must be printable ASCII without blanks")
        self._key = key

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:  # noqa: ARG002
        """Return the key's header."""
        return {"X-Api-Key": self._key}


class Signature:
    """AWS Signature Version 4, with credentials that are asked for at every request, so that they can be renewed."""

    prefix = "/iam"

    def __init__(self, url: str, region: str | None, session: Any | None) -> None:
        try:
            from botocore.session import Session  # noqa: PLC0415  an extra of this package
        except ImportError as error:
            raise ImportError('auth="iam" needs botocore: pip install "queuelog-client[iam]"') from error
        self._session = session or Session()
        in_url = _REGION.search(url)
        found = region or (in_url[1] if in_url else None)
        if found is None:
            raise ValueError('auth="iam" needs a region, since the URL doesn\'t name one')
        self._region = found

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the signature's headers; raise Unauthorized if there are no credentials."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        try:
            credentials = self._session.get_credentials()
            if credentials is None:
                raise Unauthorized("There are no AWS credentials to sign with.")
            frozen = credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise NoAnswer("The AWS credentials could not be had.", nothing_done=True) from error
        request = AWSRequest(method=method, url=url, headers=dict(headers), data=body)
        SigV4Auth(frozen, "execute-api", self._region).add_auth(request)
        return {name: value for name, value in request.headers.items() if name not in headers}
