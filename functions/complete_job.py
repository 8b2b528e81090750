from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import CompleteRequest, JobId, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("complete")


@app.post(
    "/jobs/<id>/complete",
    **documented(
        "Complete a job",
        {HTTPStatus.OK: ("The completed job", JobView)},
        (*ALWAYS, *BODY, "not-found", "conflict", "lease-lost"),
    ),
)
def complete_job(
    id: JobId, request: Annotated[CompleteRequest, Body()] = CompleteRequest()
) -> Response[dict[str, Any]]:
    """Complete a job that the caller holds."""
    return app.answer(app.queue.complete(id, **request.sent()), is_over=True)


handler = app.handler
