from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import EmptyRequest, JobId, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("retry")


@app.post(
    "/jobs/<id>/retry",
    **documented(
        "Retry a job", {HTTPStatus.OK: ("The job, pending again", JobView)}, (*ALWAYS, *BODY, "not-found", "conflict")
    ),
)
def retry_job(id: JobId, _: Annotated[EmptyRequest, Body()] = EmptyRequest()) -> Response[dict[str, Any]]:
    """Put a failed or cancelled job back as it began, due now."""
    return app.answer(app.queue.retry(id))


handler = app.handler
