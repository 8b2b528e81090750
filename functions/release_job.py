from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import JobId, JobView, ReleaseRequest
from web.openapi import ALWAYS, BODY, documented

app = App("release")


@app.post(
    "/jobs/<id>/release",
    **documented(
        "Release a job",
        {HTTPStatus.OK: ("The job, pending again", JobView)},
        (*ALWAYS, *BODY, "not-found", "conflict", "lease-lost"),
    ),
)
def release_job(id: JobId, request: Annotated[ReleaseRequest, Body()] = ReleaseRequest()) -> Response[dict[str, Any]]:
    """Give back a job that the caller holds, unfinished, without spending a retry."""
    return app.answer(app.queue.release(id, **request.sent()), is_over=True)


handler = app.handler
