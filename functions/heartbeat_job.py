from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import HeartbeatRequest, HeartbeatView, JobId
from web.openapi import ALWAYS, BODY, documented
from web.view import heartbeat_view

app = App("heartbeat")


@app.post(
    "/jobs/<id>/heartbeat",
    **documented(
        "Hold a job for longer",
        {HTTPStatus.OK: ("The lease", HeartbeatView)},
        (*ALWAYS, *BODY, "not-found", "lease-lost"),
    ),
)
def heartbeat_job(id: JobId, request: Annotated[HeartbeatRequest, Body()]) -> dict[str, Any]:
    """Extend the lease of a job that the caller holds, and learn whether the job is to be cancelled."""
    return heartbeat_view(app.queue.heartbeat(id, **request.sent()))


handler = app.handler
