from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import ClaimRequest, JobView
from web.openapi import ALWAYS, BODY, documented

#: Seconds that an idle worker should wait: a job's mean delay on an empty queue is half of it.
POLL_AGAIN = 5

app = App("claim")


@app.post(
    "/jobs/claim",
    **documented(
        "Claim a job",
        {HTTPStatus.OK: ("The job, now held", JobView), HTTPStatus.NO_CONTENT: ("Nothing is due", None, "Retry-After")},
        ALWAYS + BODY,
    ),
)
def claim_job(request: Annotated[ClaimRequest, Body()] = ClaimRequest()) -> Response[Any]:
    """Claim the due job of the highest priority, the oldest first."""
    job = app.queue.claim(types=request.types, worker_id=request.worker_id)
    if job is None:
        return Response(HTTPStatus.NO_CONTENT, headers={"Retry-After": str(POLL_AGAIN)})
    return app.answer(job)


handler = app.handler
