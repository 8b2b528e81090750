from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.body import MAX_BATCH_BODY_BYTES
from web.models import BeatsView, HeartbeatJobsRequest
from web.openapi import ALWAYS, BODY, documented
from web.view import beat_view

app = App("heartbeat", max_body_bytes=MAX_BATCH_BODY_BYTES)


@app.post(
    "/batch/heartbeat",
    **documented("Hold jobs for longer", {HTTPStatus.OK: ("Each lease, in order", BeatsView)}, ALWAYS + BODY),
)
def heartbeat_jobs(request: Annotated[HeartbeatJobsRequest, Body()]) -> dict[str, Any]:
    """Extend up to 100 leases in one transaction; those that were lost answer 409."""
    outcomes = app.queue.heartbeat_jobs([job.beat() for job in request.jobs])
    return {"jobs": [beat_view(each, app.path) for each in outcomes]}


handler = app.handler
