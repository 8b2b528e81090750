from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.body import MAX_BATCH_BODY_BYTES
from web.models import RetriedView, RetryJobsRequest
from web.openapi import ALWAYS, BODY, documented

app = App("retry", max_body_bytes=MAX_BATCH_BODY_BYTES)


@app.post("/batch/retry", **documented("Retry jobs", {HTTPStatus.OK: ("Which ones", RetriedView)}, ALWAYS + BODY))
def retry_jobs(request: Annotated[RetryJobsRequest, Body()]) -> dict[str, Any]:
    """Put failed or cancelled jobs back as they began, due now; a dry run only says which."""
    ids = app.queue.retry_jobs(**request.sent())
    return {"count": len(ids), "ids": ids, "dry_run": request.dry_run}


handler = app.handler
