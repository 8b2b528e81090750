from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import FailRequest, JobId, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("fail")


@app.post(
    "/jobs/<id>/fail",
    **documented(
        "Fail a job",
        {HTTPStatus.OK: ("The job, pending again or failed", JobView)},
        (*ALWAYS, *BODY, "not-found", "conflict", "lease-lost"),
    ),
)
def fail_job(id: JobId, request: Annotated[FailRequest, Body()] = FailRequest()) -> Response[dict[str, Any]]:
    """Give back a job that the caller holds: pending again while it has retries left, else failed."""
    return app.answer(app.queue.fail(id, **request.sent()), is_over=True)


handler = app.handler
