from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.body import MAX_BATCH_BODY_BYTES
from web.models import ClaimJobsRequest, ClaimRequestId, JobList
from web.openapi import ALWAYS, BODY, documented
from web.view import view

app = App("claim", max_body_bytes=MAX_BATCH_BODY_BYTES)


@app.post(
    "/batch/claim",
    **documented(
        "Claim jobs",
        {
            HTTPStatus.OK: ("The jobs, now held", JobList),
            HTTPStatus.NO_CONTENT: ("Nothing is due", None, "Retry-After"),
        },
        (*ALWAYS, *BODY, "idempotency-key-reused"),
    ),
)
def claim_jobs(request: Annotated[ClaimJobsRequest, Body()], request_id: ClaimRequestId = None) -> Response[Any]:
    """Claim up to 100 due jobs, those of the highest priority and the oldest first."""
    claimed = app.queue.claim_jobs(**request.sent(), request_id=request_id)
    if not claimed.jobs:
        return app.nothing_due(claimed.retry_after)
    return Response(HTTPStatus.OK, "application/json", {"jobs": [view(job, app.principal) for job in claimed.jobs]})


handler = app.handler
