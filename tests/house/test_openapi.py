"""docs/api/openapi.json says what the functions do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from local import openapi
from queuelog import JobPriority, JobStatus, Principal, Role
from queuelog.job import MAX_ID, Job
from tests.house import template
from tests.support import START
from web.models import JobView
from web.problems import CONTENT_TYPE, GATEWAY_KINDS, KINDS
from web.view import view

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
HANDLERS = {path.stem for path in (ROOT / "functions").glob("*.py")} - {"authorize", "sweep", "back_up", "work"}
METHODS = {"get", "post"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi.document()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation | {"path": path, "method": method}
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def nodes(node: object) -> Iterator[Any]:
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


def test_the_committed_document_is_up_to_date() -> None:
    committed = openapi.FILE.read_text("utf-8")
    assert committed == openapi.text(), "run make openapi"


def test_it_does_not_depend_on_what_an_operator_sets() -> None:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(["layers/queuelog/python", "functions", "."]),
        "QUEUELOG_JOB_TYPES": "video,not a type",
        "POWERTOOLS_DEV": "true",
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
    }
    code = "import sys; from local import openapi; sys.stdout.buffer.write(openapi.text().encode())"
    made = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert made.stdout == openapi.FILE.read_bytes()


def test_every_route_of_the_functions_is_in_it(document: dict[str, Any]) -> None:
    assert operations(document).keys() == HANDLERS


def test_every_function_has_the_route_that_the_template_gives_it(document: dict[str, Any]) -> None:
    routes = {
        (function["Properties"]["Handler"].removesuffix(".handler"), route["Method"].lower(), route["Path"])
        for function in template.source()["Resources"].values()
        if function["Type"] == "AWS::Serverless::Function"
        for event in function["Properties"].get("Events", {}).values()
        if event["Type"] == "Api"
        for route in [event["Properties"]]
    }
    documented = {(name, each["method"], each["path"]) for name, each in operations(document).items()}
    assert routes == documented | {
        (name, method, f"/iam{path}") for name, method, path in documented if name != "health"
    }


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert set(document) == {"openapi", "info", "servers", "security", "paths", "components"}
    assert {"title", "version", "license", "description"} <= set(document["info"])
    assert document["info"]["title"] == "Queuelog"
    for operation in operations(document).values():
        assert operation["responses"]
        assert operation["description"].endswith(".")
        for status, answer in operation["responses"].items():
            assert re.fullmatch(r"[2-5]\d\d", status)
            assert answer["description"]
        declared = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", operation["path"]))
    for scheme in document["components"]["securitySchemes"].values():
        assert (scheme["type"], scheme["in"]) == ("apiKey", "header")


def test_every_schema_is_json_schema_and_used_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = {node["$ref"] for node in nodes(document) if isinstance(node, dict) and "$ref" in node}
    assert references == {f"#/components/schemas/{name}" for name in schemas}
    inline = [node["schema"] for node in nodes(document["paths"]) if isinstance(node, dict) and "schema" in node]
    for schema in (*schemas.values(), *inline):
        Draft202012Validator.check_schema(schema)


def test_a_default_is_what_its_schema_allows(document: dict[str, Any]) -> None:
    for node in nodes(document):
        if isinstance(node, dict) and "default" in node and ("type" in node or "$ref" in node):
            schema = {name: value for name, value in node.items() if name != "default"}
            Draft202012Validator(schema | {"components": document["components"]}).validate(node["default"])


def test_every_problem_is_in_it(document: dict[str, Any]) -> None:
    described = [
        (status, slug)
        for operation in operations(document).values()
        for status, answer in operation["responses"].items()
        if CONTENT_TYPE in answer["content"]
        for slug in answer["description"].split(" or ")
    ]
    assert set(described) == {(str(kind.status.value), kind.slug) for kind in (*KINDS.values(), *GATEWAY_KINDS)}


def test_the_gateways_own_problems_are_worded_as_in_the_template() -> None:
    responses = template.source()["Resources"]["QueueApi"]["Properties"]["GatewayResponses"]
    worded = {
        (problem["type"].rpartition(":")[2], problem["status"], problem["title"])
        for response in responses.values()
        for problem in [json.loads(response["ResponseTemplates"]["application/json"])]
    }
    assert worded <= {(kind.slug, kind.status, kind.title) for kind in (*KINDS.values(), *GATEWAY_KINDS)}
    assert worded >= {(kind.slug, kind.status, kind.title) for kind in GATEWAY_KINDS}


def test_the_headers_that_answers_have_are_in_it(document: dict[str, Any]) -> None:
    found = {
        (name, status): set(answer["headers"])
        for name, operation in operations(document).items()
        for status, answer in operation["responses"].items()
        if answer.get("headers")
    }
    pauses = {(name, status): {"Retry-After"} for name in HANDLERS for status in ("429", "503")}
    assert found == pauses | {
        ("enqueue_job", "200"): {"Location", "Idempotent-Replayed"},
        ("enqueue_job", "201"): {"Location"},
        ("claim_job", "204"): {"Retry-After"},
        ("claim_jobs", "204"): {"Retry-After"},
    }


def test_each_door_has_its_server_and_its_scheme_and_health_needs_no_key(document: dict[str, Any]) -> None:
    with_key, signed = document["servers"]
    assert with_key["url"].endswith("/v1")
    assert signed["url"] == with_key["url"] + "/iam"
    schemes = document["components"]["securitySchemes"]
    assert schemes["ApiKey"]["name"] == "X-Api-Key"
    assert schemes["Signature"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    assert document["security"] == [{"ApiKey": []}, {"Signature": []}]
    assert document["paths"]["/health"]["servers"] == [with_key]
    assert [name for name, each in operations(document).items() if each.get("security") == []] == ["health"]


def test_a_job_has_the_fields_of_its_view_in_their_order(document: dict[str, Any]) -> None:
    job = Job(
        id=1,
        type="email",
        payload={},
        priority=JobPriority.MEDIUM,
        status=JobStatus.PENDING,
        retry_count=0,
        max_retries=3,
        idempotency_key=None,
        claimed_at=None,
        worker_id=None,
        error=None,
        created_at=START,
        updated_at=START,
        reason=None,
        created_by="billing",
        run_at=START,
        backoff_seconds=15,
        attempt=0,
        lease_expires_at=None,
        lease_expiries=0,
        progress=None,
        result=None,
        cancel_requested=False,
        replays=0,
        lease_token="only in the answer of a claim",
    )
    shown = view(job, Principal(name="operator", roles=frozenset({Role.ADMIN})), attempts=[])
    assert list(JobView.model_fields) == list(shown)
    assert list(document["components"]["schemas"]["JobView"]["properties"]) == list(shown)
    absent = set(shown) - set(document["components"]["schemas"]["JobView"]["required"])
    seen_by_all = view(replace(job, lease_token=None), Principal(name="nobody", roles=frozenset()))
    assert absent == set(shown) - set(seen_by_all)


def test_what_a_job_can_be_is_what_the_queue_knows(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["JobView"]["properties"]
    assert fields["status"]["enum"] == list(JobStatus)
    assert fields["priority"]["enum"] == [priority.label for priority in JobPriority]
    assert fields["id"]["maximum"] == MAX_ID
