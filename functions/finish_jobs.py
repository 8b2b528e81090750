from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.body import MAX_BATCH_BODY_BYTES
from web.models import BatchView, FinishJobsRequest
from web.openapi import ALWAYS, BODY, documented
from web.view import finished_view

app = App("complete", max_body_bytes=MAX_BATCH_BODY_BYTES)


@app.post(
    "/batch/finish",
    **documented("Finish jobs", {HTTPStatus.OK: ("What became of each, in order", BatchView)}, ALWAYS + BODY),
)
def finish_jobs(request: Annotated[FinishJobsRequest, Body()]) -> dict[str, Any]:
    """Complete, fail or release up to 100 jobs that the caller holds, in one transaction; those it lost answer 409."""
    outcomes = app.queue.finish_jobs([job.ending() for job in request.jobs])
    return {"jobs": [finished_view(each, app.principal, app.path) for each in outcomes]}


handler = app.handler
