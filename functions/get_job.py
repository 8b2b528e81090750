from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response

from web.app import App
from web.models import JobId, JobView
from web.openapi import ALWAYS, documented

app = App("get")


@app.get("/jobs/<id>", **documented("Get a job", {HTTPStatus.OK: ("The job", JobView)}, (*ALWAYS, "not-found")))
def get_job(id: JobId) -> Response[dict[str, Any]]:
    """Get one job that the caller may see."""
    job = app.queue.get(id)
    return app.answer(job, attempts=app.queue.attempts(id) if app.principal.is_admin else None)


handler = app.handler
