from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple, Self


class LeaseToken(NamedTuple):
    """Tells one claim of a job from every other: a fencing token that can't be guessed."""

    token: str
    sha256: str

    @classmethod
    def new(cls) -> Self:
        """Return a token of 192 bits."""
        return cls.of(secrets.token_urlsafe(24))

    @classmethod
    def of(cls, token: str) -> Self:
        """Return a token that a caller sent; any text is well formed, and most are nobody's."""
        return cls(token, hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest())
