from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header

from web.app import App
from web.models import EnqueueRequest, IdempotencyKey, JobView
from web.openapi import ALWAYS, BODY, documented

app = App("enqueue")


@app.post(
    "/jobs",
    **documented(
        "Enqueue a job",
        {
            HTTPStatus.OK: ("The job that the same key made", JobView, "Location", "Idempotent-Replayed"),
            HTTPStatus.CREATED: ("The new job", JobView, "Location"),
        },
        (*ALWAYS, *BODY, "idempotency-key-reused"),
    ),
)
def enqueue_job(
    job: Annotated[EnqueueRequest, Body()],
    key: Annotated[IdempotencyKey | None, Header(alias="Idempotency-Key")] = None,
) -> Response[dict[str, Any]]:
    """Enqueue a job; a repeat with the same key and the same fields gets the job that the first request made."""
    enqueued = app.queue.enqueue(job.new_job(key))
    headers = {"Location": f"{app.path.rstrip('/')}/{enqueued.job.id}"}
    if enqueued.replayed:
        return app.answer(enqueued.job, HTTPStatus.OK, headers | {"Idempotent-Replayed": "true"})
    return app.answer(enqueued.job, HTTPStatus.CREATED, headers)


handler = app.handler
