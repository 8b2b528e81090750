"""V-01: there is no authentication on any endpoint, so anyone who finds the URL owns the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.bodies import RIGHT
from tests.http.support import EVENTS, GUARDED, NOBODY, assert_problem, success

if TYPE_CHECKING:
    from tests.http.support import Api

DISGUISES = {
    "nothing": {},
    "an unchecked key": {"X-Api-Key": "ql_example1_doNotUseThisKeyItIsInAPublicRepository00000"},
    "an unchecked signature": {"Authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20260131/eu-central-1/execute-api"},
    "headers that proxies believe": {"X-Forwarded-User": "operator", "X-Amzn-Oidc-Identity": "operator"},
}


@pytest.mark.parametrize("prefix", ["", "/iam"])
@pytest.mark.parametrize("headers", DISGUISES.values(), ids=DISGUISES.keys())
def test_a_caller_without_credentials_reads_nothing_and_changes_nothing(
    api: Api, headers: dict[str, str], prefix: str
) -> None:
    api.new_job(payload={"to": "ada@example.com"})
    api.claimed_job()
    api.new_job()
    before = success(api.list())
    for function in GUARDED:
        for path in {"/jobs", "/jobs/1", "/jobs/claim", "/batch/enqueue", EVENTS[function]["path"]}:
            context = {"path": f"/v1{prefix}{path}", "stage": "v1", "identity": {"userArn": None}}
            changes = {"path": f"{prefix}{path}", "requestContext": context}
            answer = api.ask(function, NOBODY, body=RIGHT.get(function), headers=headers, changes=changes)
            assert_problem(answer, 401, "unauthorized")
            assert "ada" not in answer.raw["body"]
    assert success(api.list()) == before
