from http import HTTPStatus
from typing import Any

from web.app import App
from web.models import ExplanationView, JobId
from web.openapi import ALWAYS, documented
from web.view import explanation_view

app = App("explain")


@app.get(
    "/jobs/<id>/explain",
    **documented("Explain a job", {HTTPStatus.OK: ("Why it is where it is", ExplanationView)}, (*ALWAYS, "not-found")),
)
def explain_job(id: JobId) -> dict[str, Any]:
    """Say why a job is where it is."""
    return explanation_view(app.queue.explain(id))


handler = app.handler
