from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import ClaimRequest, ClaimRequestId, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("claim")


@app.post(
    "/jobs/claim",
    **documented(
        "Claim a job",
        {HTTPStatus.OK: ("The job, now held", JobView), HTTPStatus.NO_CONTENT: ("Nothing is due", None, "Retry-After")},
        (*ALWAYS, *BODY, "idempotency-key-reused"),
    ),
)
def claim_job(
    request: Annotated[ClaimRequest, Body()] = ClaimRequest(), request_id: ClaimRequestId = None
) -> Response[Any]:
    """Claim the due job of the highest priority, the oldest first."""
    claimed = app.queue.claim_jobs(**request.sent(), request_id=request_id)
    return app.answer(claimed.jobs[0]) if claimed.jobs else app.nothing_due(claimed.retry_after)


handler = app.handler
