import time
from http import HTTPStatus

from web.app import App, store
from web.models import Health
from web.openapi import documented
from web.problems import Unreachable

#: Seconds that an answer is kept: the route is open to anyone, and must not become a way to load the file system.
KEPT = 5.0

app = App(None)
_seen: tuple[float, bool] = (-KEPT, False)


@app.get(
    "/health",
    **documented(
        "Say whether the queue's file system can be reached",
        {HTTPStatus.OK: ("It can", Health)},
        ("bad-request", "validation-failed", "too-many-requests", "internal-error", "storage-unavailable"),
    ),
)
def health() -> dict[str, str]:
    """Say whether the queue's file system can be reached; takes no lock and opens nothing."""
    global _seen  # noqa: PLW0603
    if time.monotonic() - _seen[0] >= KEPT:
        _seen = (time.monotonic(), store().is_reachable())
    if not _seen[1]:
        raise Unreachable
    return {"status": "ok"}


handler = app.handler
