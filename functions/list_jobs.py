from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Query

from queuelog.job import JobStatus
from queuelog.page import Order
from web.app import App
from web.models import JobPage, JobType, Limit, PriorityLabel
from web.openapi import documented
from web.view import view

app = App("list")


@app.get("/jobs", **documented("List jobs", {HTTPStatus.OK: ("A page of jobs", JobPage)}))
def list_jobs(
    status: Annotated[JobStatus | None, Query()] = None,
    type: Annotated[JobType | None, Query()] = None,
    priority: Annotated[PriorityLabel | None, Query()] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(description="next_cursor of the page before")] = None,
    order: Annotated[Order, Query(description="queue, the order of claims, needs status=pending")] = Order.NEWEST,
) -> dict[str, Any]:
    """List the jobs that the caller may see; a page can be short and still have a next one."""
    page = app.queue.list(status=status, type=type, priority=priority, limit=limit, cursor=cursor, order=order)
    return {"jobs": [view(job, app.principal) for job in page.jobs], "next_cursor": page.next_cursor}


handler = app.handler
