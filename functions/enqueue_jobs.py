from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.body import MAX_BATCH_BODY_BYTES
from web.models import BatchView, EnqueueJobsRequest
from web.openapi import ALWAYS, BODY, documented
from web.view import enqueued_view

app = App("enqueue", max_body_bytes=MAX_BATCH_BODY_BYTES)


@app.post(
    "/batch/enqueue",
    **documented(
        "Enqueue jobs", {HTTPStatus.OK: ("Each job, in order", BatchView)}, (*ALWAYS, *BODY, "idempotency-key-reused")
    ),
)
def enqueue_jobs(request: Annotated[EnqueueJobsRequest, Body()]) -> dict[str, Any]:
    """Enqueue up to 100 jobs in one transaction: all of them, or none when one is refused."""
    enqueued = app.queue.enqueue_jobs([job.new_job() for job in request.jobs])
    return {"jobs": [enqueued_view(each, app.principal) for each in enqueued]}


handler = app.handler
