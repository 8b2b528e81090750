"""The files in events/ are events as API Gateway sends them, and each is a request that its function understands."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import EVENTS, MODULES, WITH_BODY, Answer, assert_documented

if TYPE_CHECKING:
    from tests.http.support import Api

#: The job that the events speak of was neither enqueued nor claimed before.
STATUS = {
    "enqueue_job": 201,
    "list_jobs": 200,
    "get_job": 404,
    "explain_job": 404,
    "claim_job": 204,
    "heartbeat_job": 409,
    "complete_job": 409,
    "fail_job": 409,
    "release_job": 409,
    "cancel_job": 404,
    "retry_job": 404,
    "get_stats": 200,
    "enqueue_jobs": 200,
    "claim_jobs": 204,
    "heartbeat_jobs": 200,
    "finish_jobs": 200,
    "retry_jobs": 200,
    "health": 200,
}


@pytest.mark.parametrize("function", MODULES)
def test_a_function_understands_its_event_as_it_is(api: Api, function: str) -> None:
    answer = invoke(function)
    assert answer.status == STATUS[function], answer.body
    assert_documented(function, answer)


def test_the_events_tell_the_story_of_a_job(api: Api) -> None:
    story = ("enqueue_job", "get_job", "claim_job", "fail_job", "claim_job", "complete_job")
    assert [invoke(name).status for name in story] == [201, 200, 200, 200, 200, 200]
    assert [invoke(name).status for name in ("retry_job", "cancel_job")] == [409, 409]
    assert [item["code"] for item in invoke("enqueue_jobs").body["jobs"]] == [201, 201]
    assert [item["code"] for item in invoke("enqueue_jobs").body["jobs"]] == [200, 200]
    (claimed,) = invoke("claim_jobs").body["jobs"]
    assert invoke("claim_jobs").body["jobs"] == [claimed]


def invoke(function: str) -> Answer:
    answer = MODULES[function].handler(EVENTS[function], SimpleNamespace(aws_request_id="1"))
    return Answer(answer, EVENTS[function]["requestContext"]["path"])


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_an_event_agrees_with_itself(event: dict[str, Any]) -> None:
    context = event["requestContext"]
    assert context["path"] == f"/{context['stage']}{event['path']}"
    assert event["path"] == event["resource"].replace("{id}", (event["pathParameters"] or {}).get("id", ""))
    assert (context["resourcePath"], context["httpMethod"]) == (event["resource"], event["httpMethod"])
    assert event["multiValueHeaders"] == {name: [value] for name, value in event["headers"].items()}
    query = event["queryStringParameters"]
    assert event["multiValueQueryStringParameters"] == (query and {name: [value] for name, value in query.items()})
    assert ("authorizer" in context) == ("X-Api-Key" in event["headers"]) == (event["resource"] != "/health")


@pytest.mark.parametrize("function", MODULES)
def test_an_event_has_a_body_in_base64_where_its_route_reads_one(function: str) -> None:
    event = EVENTS[function]
    assert event["isBase64Encoded"] == (event["body"] is not None) == (function in WITH_BODY)
    if event["body"] is not None:
        assert isinstance(json.loads(base64.b64decode(event["body"])), dict)
