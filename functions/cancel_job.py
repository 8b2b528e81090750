from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from web.app import App
from web.models import EmptyRequest, JobId, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("cancel")


@app.post(
    "/jobs/<id>/cancel",
    **documented(
        "Cancel a job",
        {HTTPStatus.OK: ("The job, cancelled or asked to be", JobView)},
        (*ALWAYS, *BODY, "not-found", "conflict"),
    ),
)
def cancel_job(id: JobId, _: Annotated[EmptyRequest, Body()] = EmptyRequest()) -> Response[dict[str, Any]]:
    """Cancel a pending job, or ask the worker of a running one to stop."""
    return app.answer(app.queue.cancel(id))


handler = app.handler
