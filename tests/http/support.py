"""The functions called as Lambda calls them, with events made from those in events/."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

import cancel_job
import claim_job
import claim_jobs
import complete_job
import enqueue_job
import enqueue_jobs
import explain_job
import fail_job
import finish_jobs
import get_job
import get_stats
import health
import heartbeat_job
import heartbeat_jobs
import list_jobs
import release_job
import retry_job
import retry_jobs
import sweep
from queuelog.job import canonical_json
from web.problems import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support import SteppedClock
    from web.problems import Kind

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    module.__name__: module
    for module in (
        enqueue_job,
        list_jobs,
        get_job,
        explain_job,
        claim_job,
        heartbeat_job,
        complete_job,
        fail_job,
        release_job,
        cancel_job,
        retry_job,
        get_stats,
        enqueue_jobs,
        claim_jobs,
        heartbeat_jobs,
        finish_jobs,
        retry_jobs,
        health,
    )
}
EVENTS: dict[str, Any] = {name: json.loads((ROOT / f"events/{name}.json").read_text()) for name in MODULES}
OPENAPI: dict[str, Any] = json.loads((ROOT / "docs/api/openapi.json").read_text())
OPERATIONS = {
    operation["operationId"]: operation
    for path in OPENAPI["paths"].values()
    for method, operation in path.items()
    if method in {"get", "post"}
}

#: Functions that ask who is calling, that read a body, that need one, that take many jobs, and that act on one.
GUARDED = [name for name in MODULES if name != "health"]
WITH_BODY = [name for name in GUARDED if EVENTS[name]["httpMethod"] == "POST"]
BATCHES = [name for name in WITH_BODY if EVENTS[name]["resource"].startswith("/batch/")]
NEEDING_BODY = ["enqueue_job", "heartbeat_job", *BATCHES]
WITH_ID = [name for name in GUARDED if "{id}" in EVENTS[name]["resource"]]

ACCOUNT = "123456789012"
URN = "urn:queuelog:problem:"


@dataclass(frozen=True)
class Caller:
    """What API Gateway says of a caller: an authoriser's context, or the ARN of who signed the request."""

    context: dict[str, str] | None = None
    user_arn: str | None = None


NOBODY = Caller()


def with_key(name: str, *roles: str, max_priority: str = "medium", types: Sequence[str] | None = None) -> Caller:
    """Return a caller with an API key, as the authoriser describes it."""
    context = {"name": name, "roles": ",".join(roles), "max_priority": max_priority}
    if types is not None:
        context["types"] = json.dumps(types)
    return Caller(context=context)


def signed(role: str, session: str = "session-1", account: str = ACCOUNT) -> Caller:
    """Return a caller that signs as a session of an IAM role."""
    return Caller(user_arn=f"arn:aws:sts::{account}:assumed-role/{role}/{session}")


PRODUCER = with_key("billing", "producer")
WORKER = with_key("mailer", "worker")
ADMIN = with_key("operator", "admin", max_priority="critical")
#: What each IAM role may do in these tests; they have paths, which the ARN of a session has not.
ROLE_ARNS = {
    "PRODUCER": f"arn:aws:iam::{ACCOUNT}:role/queue/Producer,arn:aws:iam::{ACCOUNT}:role/Both",
    "WORKER": f"arn:aws:iam::{ACCOUNT}:role/queue/eu/Worker, arn:aws:iam::{ACCOUNT}:role/Both",
    "ADMIN": f"arn:aws:iam::{ACCOUNT}:role/Admin",
}


@dataclass(frozen=True)
class Answer:
    """What a function answered."""

    raw: dict[str, Any]
    #: The path that was asked for, which a problem names as its instance.
    path: str
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        headers = {name: ",".join(values) for name, values in self.raw["multiValueHeaders"].items()}
        object.__setattr__(self, "headers", headers)

    @property
    def status(self) -> int:
        return int(self.raw["statusCode"])

    @property
    def body(self) -> Any:
        return None if self.raw["body"] is None else json.loads(self.raw["body"])

    @property
    def lambda_bytes(self) -> int:
        """How large Lambda finds it: the body is a string in another JSON text, without ASCII escapes."""
        return len(json.dumps(self.raw, ensure_ascii=False).encode())


class Api:
    """All functions over one database file, at the time of one clock."""

    def __init__(self, database: Path, clock: SteppedClock) -> None:
        self.database = database
        self.clock = clock

    def ask(self, function: str, caller: Caller = NOBODY, **request: Any) -> Answer:
        """Send a request, made as in event(), and check that its answer is one that OpenAPI documents."""
        sent = event(function, caller, **request)
        context = SimpleNamespace(
            aws_request_id="6f1d2c3b-0000-4000-8000-000000000001",
            function_name=function,
            memory_limit_in_mb=512,
            invoked_function_arn=f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:{function}",
            clock=self.clock,
        )
        answer = Answer(MODULES[function].handler(sent, context), sent["requestContext"]["path"])
        assert_documented(function, answer)
        return answer

    def enqueue(
        self, caller: Caller = PRODUCER, /, *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> Answer:
        return self.ask("enqueue_job", caller, body={"type": "email", **fields}, headers=headers)

    def list(self, caller: Caller = ADMIN, /, **query: str) -> Answer:
        return self.ask("list_jobs", caller, query=query)

    def get(self, id: int, caller: Caller = ADMIN) -> Answer:
        return self.ask("get_job", caller, id=id)

    def claim(self, caller: Caller = WORKER, /, *, request_id: str | None = None, **fields: Any) -> Answer:
        return self.ask("claim_job", caller, body=fields, headers=_request_id(request_id))

    def heartbeat(self, id: int, caller: Caller = WORKER, **fields: Any) -> Answer:
        return self.ask("heartbeat_job", caller, id=id, body=fields)

    def complete(self, id: int, caller: Caller = WORKER, **fields: Any) -> Answer:
        return self.ask("complete_job", caller, id=id, body=fields)

    def fail(self, id: int, caller: Caller = WORKER, **fields: Any) -> Answer:
        return self.ask("fail_job", caller, id=id, body=fields)

    def release(self, id: int, caller: Caller = WORKER, **fields: Any) -> Answer:
        return self.ask("release_job", caller, id=id, body=fields)

    def cancel(self, id: int, caller: Caller = PRODUCER) -> Answer:
        return self.ask("cancel_job", caller, id=id)

    def retry(self, id: int, caller: Caller = ADMIN) -> Answer:
        return self.ask("retry_job", caller, id=id)

    def explain(self, id: int, caller: Caller = ADMIN) -> Answer:
        return self.ask("explain_job", caller, id=id)

    def stats(self, caller: Caller = ADMIN) -> Answer:
        return self.ask("get_stats", caller)

    def enqueue_jobs(self, jobs: Sequence[Mapping[str, Any]], caller: Caller = PRODUCER) -> Answer:
        return self.ask("enqueue_jobs", caller, body={"jobs": jobs})

    def claim_jobs(self, caller: Caller = WORKER, /, *, request_id: str | None = None, **fields: Any) -> Answer:
        return self.ask("claim_jobs", caller, body=fields, headers=_request_id(request_id))

    def heartbeat_jobs(self, jobs: Sequence[Mapping[str, Any]], caller: Caller = WORKER) -> Answer:
        return self.ask("heartbeat_jobs", caller, body={"jobs": jobs})

    def finish_jobs(self, jobs: Sequence[Mapping[str, Any]], caller: Caller = WORKER) -> Answer:
        return self.ask("finish_jobs", caller, body={"jobs": jobs})

    def retry_jobs(self, caller: Caller = ADMIN, /, **fields: Any) -> Answer:
        return self.ask("retry_jobs", caller, body=fields)

    def sweep(self) -> dict[str, Any]:
        """Sweep as the schedule does, and return what it says."""
        context = SimpleNamespace(aws_request_id="sweep", clock=self.clock, get_remaining_time_in_millis=lambda: 60_000)
        return sweep.handler({}, context)

    def new_job(self, caller: Caller = PRODUCER, /, **fields: Any) -> dict[str, Any]:
        """Enqueue a job that is known to be right, and return it."""
        return success(self.enqueue(caller, **fields), 201)

    def claimed_job(self, caller: Caller = WORKER, /, **fields: Any) -> dict[str, Any]:
        """Claim a job that is known to be there, and return it."""
        return success(self.claim(caller, **fields), 200)

    def claimed_jobs(self, caller: Caller = WORKER, /, **fields: Any) -> Sequence[dict[str, Any]]:
        """Claim several jobs of which one at least is known to be there, and return them."""
        jobs: Sequence[dict[str, Any]] = success(self.claim_jobs(caller, **{"limit": 100, **fields}), 200)["jobs"]
        return jobs


#: Headers of the files in events/ that a request of these tests has only if it says so.
MADE_HERE = {"Claim-Request-Id", "Content-Type", "X-Api-Key"}


def event(
    function: str,
    caller: Caller,
    *,
    id: object = 1,
    body: bytes | Mapping[str, Any] | None = None,
    content_type: str | None = "application/json",
    headers: Mapping[str, str | list[str]] | None = None,
    query: Mapping[str, str | list[str]] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the event of events/<function>.json with another caller, job, body and so on.

    A caller with a signature comes in below /iam. Several values of a header or query key are a list.
    changes: fields of the event to overwrite at the end.
    """
    made: dict[str, Any] = deepcopy(EVENTS[function])
    path = made["resource"].replace("{id}", str(id))
    if caller.user_arn is not None:
        made["resource"], path = f"/iam{made['resource']}", f"/iam{path}"
    made["path"] = path
    if made["pathParameters"]:
        made["pathParameters"] = {"id": str(id)}
    context = made["requestContext"]
    context |= {"path": f"/v1{path}", "resourcePath": made["resource"]}
    context.pop("authorizer", None)
    if caller.context is not None:
        context["authorizer"] = {**caller.context, "principalId": caller.context["name"], "integrationLatency": 41}
    context["identity"]["userArn"] = caller.user_arn

    raw = body if body is None or isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    # Every body comes as binary, whatever its type: the template says so.
    made["body"] = base64.b64encode(raw).decode() if raw else None
    made["isBase64Encoded"] = bool(raw)

    sent = {name: [value] for name, value in made["headers"].items() if name not in MADE_HERE}
    if content_type is not None:
        sent["Content-Type"] = [content_type]
    sent |= {name: _values(value) for name, value in (headers or {}).items()}
    made["multiValueHeaders"] = sent
    made["headers"] = {name: values[-1] for name, values in sent.items()}

    asked = {name: _values(value) for name, value in (query or {}).items()}
    made["multiValueQueryStringParameters"] = asked or None
    made["queryStringParameters"] = {name: values[-1] for name, values in asked.items()} or None
    return made | dict(changes or {})


def _request_id(request_id: str | None) -> dict[str, str]:
    return {} if request_id is None else {"Claim-Request-Id": request_id}


def _values(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def success(answer: Answer, status: int = 200) -> dict[str, Any]:
    """Return the body of an answer that must have this status."""
    assert answer.status == status, answer.body
    body: dict[str, Any] = answer.body
    return body


#: Problems of which each fault is named.
WITH_FAULTS = {"validation-failed"}
#: Those that name them where several jobs may be at fault.
WITH_FAULTS_IN_A_BATCH = {"validation-failed", "forbidden", "idempotency-key-reused"}


def assert_problem(answer: Answer, status: int, slug: str) -> set[tuple[str, str]]:
    """Check the whole shape of a problem (RFC 9457) and return its faults, each as field and code."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    pause = _kind(slug).retry_after
    assert answer.headers.get("Retry-After") == (pause and str(pause))
    assert answer.raw["isBase64Encoded"] is False
    assert answer.raw["body"] == canonical_json(answer.body, sort_keys=False)
    return faults_in(answer.body, status, slug, answer.path)


def faults_in(problem: dict[str, Any], status: int, slug: str, instance: str) -> set[tuple[str, str]]:
    """Check the shape of a problem's object, which may be one item of a batch's answer; return its faults likewise."""
    assert problem["type"] == f"urn:queuelog:problem:{slug}", problem
    assert problem["title"] == _kind(slug).title
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["instance"] == instance
    expected = ["type", "title", "status", "detail", "instance"]
    faults = problem.get("errors", [])
    assert list(problem) == ([*expected, "errors"] if faults else expected)
    assert len(faults) <= 100
    for fault in faults:
        assert list(fault) == ["field", "code", "message"]
        assert all(isinstance(text, str) and text for text in fault.values()), fault
    assert bool(faults) >= (slug in WITH_FAULTS)
    assert bool(faults) <= (slug in (WITH_FAULTS_IN_A_BATCH if "/batch/" in instance else WITH_FAULTS))
    return {(fault["field"], fault["code"]) for fault in faults}


def assert_refused(answer: Answer, index: int, slug: str) -> None:
    """Check that one item of a batch's answer is a 409 with a whole problem."""
    item = success(answer)["jobs"][index]
    assert list(item) == ["code", "problem"], item
    assert item["code"] == 409
    assert faults_in(item["problem"], 409, slug, answer.path) == set()


def codes(answer: Answer) -> list[int]:
    """Return the code of each item of a batch's answer."""
    return [item["code"] for item in success(answer)["jobs"]]


def _kind(slug: str) -> Kind:
    (kind,) = {kind for kind in KINDS.values() if kind.slug == slug}
    return kind


def assert_documented(function: str, answer: Answer) -> None:
    """Check an answer's status, content type and body against docs/api/openapi.json."""
    assert str(answer.status) in OPERATIONS[function]["responses"], (function, answer.raw)
    documented = OPERATIONS[function]["responses"][str(answer.status)]
    headers = dict(answer.headers)
    content_type = headers.pop("Content-Type", None)
    assert set(headers) <= set(documented.get("headers", {}))
    if documented["content"]:
        assert [content_type] == list(documented["content"])
        _validator(function, answer.status).validate(answer.body)
        if answer.status >= 400:
            assert answer.body["type"].removeprefix(URN) in documented["description"].split(" or ")
    else:
        assert (content_type, answer.raw["body"]) == (None, None)


@cache
def _validator(function: str, status: int) -> Draft202012Validator:
    ((_, media_type),) = OPERATIONS[function]["responses"][str(status)]["content"].items()
    return Draft202012Validator({**media_type["schema"], "components": OPENAPI["components"]})
