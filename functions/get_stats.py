from http import HTTPStatus
from typing import Any

from web.app import App
from web.models import StatsView
from web.openapi import documented
from web.view import stats_view

app = App("stats")


@app.get("/stats", **documented("Count the jobs", {HTTPStatus.OK: ("How the queue is doing", StatsView)}))
def get_stats() -> dict[str, Any]:
    """Count the jobs by status, type and priority, and say how long the oldest due one has waited."""
    return stats_view(app.queue.stats())


handler = app.handler
