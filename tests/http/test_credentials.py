"""Who is calling: through the door with a key, and through the door with a signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.bodies import RIGHT
from tests.http.conftest import forget
from tests.http.support import (
    ACCOUNT,
    ADMIN,
    EVENTS,
    GUARDED,
    NOBODY,
    PRODUCER,
    WITH_ID,
    WORKER,
    Caller,
    assert_problem,
    signed,
    success,
    with_key,
)
from web.settings import Settings

if TYPE_CHECKING:
    from tests.http.support import Api

ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role"


@pytest.mark.parametrize("function", GUARDED)
@pytest.mark.parametrize("prefix", ["", "/iam"])
@pytest.mark.parametrize("authorizer", ["absent", None, {}, {"principalId": "unknown"}])
def test_without_credentials_every_route_answers_401_at_both_doors(
    api: Api, function: str, prefix: str, authorizer: Any
) -> None:
    answer = api.ask(function, NOBODY, changes=at_door(prefix, function, authorizer))
    assert_problem(answer, 401, "unauthorized")


def at_door(prefix: str, function: str, authorizer: Any) -> dict[str, Any]:
    path = EVENTS[function]["path"]
    context: dict[str, Any] = {"path": f"/v1{prefix}{path}", "stage": "v1", "identity": {"userArn": None}}
    if authorizer != "absent":
        context["authorizer"] = authorizer
    return {"path": f"{prefix}{path}", "requestContext": context}


@pytest.mark.parametrize("function", GUARDED)
def test_credentials_that_only_the_caller_speaks_of_count_for_nothing(api: Api, function: str) -> None:
    headers = {
        "X-Api-Key": "ql_example1_doNotUseThisKeyItIsInAPublicRepository00000",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20260131/eu-central-1/execute-api/aws4_request",
        "X-Amzn-Principal": "operator",
    }
    body = {"name": "operator", "roles": "admin", "max_priority": "critical"}
    assert_problem(api.ask(function, NOBODY, headers=headers, body=body, query=body), 401, "unauthorized")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize("path", ["/jobs/1/cancel", "/", "/nothing", "/iam"])
def test_a_route_that_a_function_does_not_have_is_401_to_a_stranger_and_404_to_others(
    api: Api, method: str, path: str
) -> None:
    for caller, status, slug in ((NOBODY, 401, "unauthorized"), (ADMIN, 404, "not-found")):
        changes = {"path": path, "httpMethod": method}
        assert_problem(api.ask("get_job", caller, changes=changes), status, slug)


# The door with a key.


def test_the_authorisers_context_says_who_is_calling(api: Api) -> None:
    job = api.new_job(with_key("shop", "producer"))
    assert job["created_by"] == "shop"
    assert api.claimed_job(with_key("packer", "worker"))["worker_id"] == "packer"


def test_a_key_may_have_several_roles(api: Api) -> None:
    both = with_key("both", "producer", "worker")
    job = api.new_job(both)
    assert api.claimed_job(both)["id"] == job["id"]
    assert success(api.complete(job["id"], both))["status"] == "completed"


def test_a_key_has_no_more_types_than_its_context_lists(api: Api) -> None:
    api.new_job(PRODUCER, type="email")
    for types, status in ((None, 201), (["email", "pdf"], 201), (["pdf"], 403), ([], 403)):
        assert api.enqueue(with_key("shop", "producer", types=types)).status == status
    assert api.claim(with_key("packer", "worker", types=["pdf"])).status == 204
    assert api.claim(with_key("packer", "worker", types=[])).status == 204
    assert api.claimed_job(with_key("packer", "worker", types=["pdf", "email"]))["type"] == "email"


@pytest.mark.parametrize("ceiling", ["low", "medium", "high", "critical"])
def test_a_key_enqueues_up_to_the_priority_of_its_context(api: Api, ceiling: str) -> None:
    labels = ["low", "medium", "high", "critical"]
    caller = with_key("shop", "producer", max_priority=ceiling)
    answers = [api.enqueue(caller, priority=label) for label in labels]
    allowed = labels.index(ceiling) + 1
    assert [answer.status for answer in answers] == [201] * allowed + [403] * (4 - allowed)
    for answer in answers[allowed:]:
        assert_problem(answer, 403, "forbidden")


# The door with a signature.


def test_a_signed_role_owns_what_its_sessions_enqueue(api: Api) -> None:
    job = api.new_job(signed("Producer", "monday"))
    assert job["created_by"] == f"{ACCOUNT}:role/Producer"
    assert success(api.get(job["id"], signed("Producer", "tuesday")))["payload"] == {}
    replayed = [api.enqueue(signed("Producer", day), idempotency_key="k") for day in ("monday", "tuesday")]
    assert [answer.status for answer in replayed] == [201, 200]


def test_a_session_of_a_signed_role_holds_what_it_claims(api: Api) -> None:
    api.new_job()
    monday, tuesday = signed("Worker", "monday"), signed("Worker", "tuesday")
    job = api.claimed_job(monday)
    assert job["worker_id"] == f"{ACCOUNT}:role/Worker/monday"
    assert_problem(api.complete(job["id"], tuesday), 409, "conflict")
    assert_problem(api.get(job["id"], tuesday), 404, "not-found")
    success(api.complete(job["id"], monday))


def test_a_role_that_several_parameters_name_has_all_their_roles(api: Api) -> None:
    job = api.new_job(signed("Both"))
    assert api.claimed_job(signed("Both"))["id"] == job["id"]


def test_a_signed_role_may_enqueue_every_type_up_to_medium_and_an_admin_up_to_critical(api: Api) -> None:
    for job_type in ("email", "pdf", "sync"):
        api.new_job(signed("Producer"), type=job_type)
    assert_problem(api.enqueue(signed("Producer"), priority="high"), 403, "forbidden")
    api.new_job(signed("Admin"), priority="critical")


def test_both_doors_lead_to_the_same_jobs(api: Api) -> None:
    job = api.new_job(PRODUCER)
    assert api.claimed_job(signed("Worker"))["id"] == job["id"]
    assert success(api.get(job["id"], PRODUCER))["status"] == "running"


def test_the_path_of_the_door_is_part_of_what_an_answer_names(api: Api) -> None:
    answer = api.enqueue(signed("Producer"))
    assert answer.headers["Location"] == f"/v1/iam/jobs/{answer.body['id']}"
    assert_problem(api.get(7, signed("Producer")), 404, "not-found")


@pytest.mark.parametrize(
    "user_arn",
    [
        f"{ROLE}/Stranger/session-1",
        f"{ROLE}/producer/session-1",
        f"{ROLE}/Producer2/session-1",
        f"{ROLE}/queue/Producer/session-1",
        f"{ROLE}/Producer",
        f"{ROLE}/Producer/",
        f"{ROLE}/Producer/s",
        f"{ROLE}/Stranger/Producer/session-1",
        f"{ROLE}/Producer/session-1/Admin",
        f"{ROLE}/Producer/session 1",
        f"{ROLE}/Producer/session-1\n",
        f"x{ROLE}/Producer/session-1",
        f"{ROLE}/Pröducer/session-1",
        "arn:aws:sts::210987654321:assumed-role/Producer/session-1",
        "arn:aws:sts::12345678901:assumed-role/Producer/session-1",
        "arn:aws:sts::१२३४५६७८९०१२:assumed-role/Producer/session-1",
        f"arn:aws:iam::{ACCOUNT}:role/Producer",
        f"arn:aws:iam::{ACCOUNT}:role/queue/Producer",
        f"arn:aws:iam::{ACCOUNT}:user/Producer",
        f"arn:aws:iam::{ACCOUNT}:user/Producer/session-1",
        f"arn:aws:iam::{ACCOUNT}:root",
        f"arn:aws:sts::{ACCOUNT}:federated-user/Producer",
        f"arn:aws:sts::{ACCOUNT}:assumed-role",
        "Producer",
        "*",
    ],
)
@pytest.mark.parametrize("function", GUARDED)
def test_a_signed_caller_that_no_parameter_names_is_403(api: Api, function: str, user_arn: str) -> None:
    assert_problem(api.ask(function, Caller(user_arn=user_arn), body=b"nope"), 403, "forbidden")


@pytest.mark.parametrize("partition", ["aws-us-gov", "aws-cn"])
def test_a_role_is_the_same_in_every_partition(api: Api, partition: str) -> None:
    arn = f"arn:{partition}:sts::{ACCOUNT}:assumed-role/Producer/session-1"
    success(api.enqueue(Caller(user_arn=arn)), 201)


@pytest.mark.parametrize("session", ["i-0123456789abcdef0", "ada@example.com", "a_b+c=d,e.f-g", "x" * 64])
def test_every_name_that_a_session_can_have_is_taken(api: Api, session: str) -> None:
    api.new_job()
    job = api.claimed_job(signed("Worker", session))
    assert success(api.complete(job["id"], signed("Worker", session)))["worker_id"].endswith(f"/{session}")


# What each role may do.

ROLES = {
    "nothing": with_key("anyone"),
    "producer": PRODUCER,
    "worker": WORKER,
    "admin": ADMIN,
    "signed producer": signed("Producer"),
    "signed worker": signed("Worker"),
    "signed admin": signed("Admin"),
}
ANYONE = set(ROLES) - {"nothing"}
PRODUCERS = {"producer", "admin", "signed producer", "signed admin"}
WORKERS = {"worker", "admin", "signed worker", "signed admin"}
ADMINS = {"admin", "signed admin"}
MAY = {
    "enqueue_job": PRODUCERS,
    "list_jobs": ANYONE,
    "get_job": ANYONE,
    "explain_job": PRODUCERS,
    "claim_job": WORKERS,
    "heartbeat_job": WORKERS,
    "complete_job": WORKERS,
    "fail_job": WORKERS,
    "release_job": WORKERS,
    "cancel_job": PRODUCERS,
    "retry_job": ADMINS,
    "get_stats": ADMINS,
    "enqueue_jobs": PRODUCERS,
    "claim_jobs": WORKERS,
    "heartbeat_jobs": WORKERS,
    "finish_jobs": WORKERS,
    "retry_jobs": ADMINS,
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("function", GUARDED)
def test_a_role_decides_which_routes_may_be_used(api: Api, function: str, role: str) -> None:
    answer = api.ask(function, ROLES[role], body=RIGHT.get(function))
    if role in MAY[function]:
        assert answer.status != 403
    else:
        assert_problem(answer, 403, "forbidden")


@pytest.mark.parametrize(
    ("function", "caller"),
    [(function, ROLES[role]) for function in GUARDED for role in ROLES if role not in MAY[function]],
)
def test_a_missing_role_is_403_before_anything_else_is_wrong(api: Api, function: str, caller: Caller) -> None:
    ids = [1, 2**53 - 1, "007", "x"] if function in WITH_ID else [1]
    for id in ids:
        answer = api.ask(function, caller, id=id, body=b"[", content_type="text/plain", query={"colour": ["1", "2"]})
        assert_problem(answer, 403, "forbidden")


# What the operator set.


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("QUEUELOG_JOB_TYPES", "email,no spaces", "QUEUELOG_JOB_TYPES holds 'no spaces'"),
        ("QUEUELOG_JOB_TYPES", "-x", "QUEUELOG_JOB_TYPES holds '-x'"),
        ("QUEUELOG_PRODUCER_ROLE_ARNS", "Producer", "QUEUELOG_PRODUCER_ROLE_ARNS holds 'Producer'"),
        ("QUEUELOG_ADMIN_ROLE_ARNS", f"arn:aws:iam::{ACCOUNT}:user/ada", "not the ARN of an IAM role"),
        ("QUEUELOG_WORKER_ROLE_ARNS", "arn:aws:iam::*:role/Worker", "not the ARN of an IAM role"),
    ],
)
def test_a_wrong_setting_is_a_sentence_in_the_log_and_a_500_to_callers(
    api: Api, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    forget()
    answer = api.enqueue()
    assert_problem(answer, 500, "internal-error")
    assert value not in answer.raw["body"]
    with pytest.raises(ValueError, match=sentence):
        Settings.of({"QUEUELOG_DATABASE": "queue.db", variable: value})


def test_a_missing_database_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="QUEUELOG_DATABASE is not set"):
        Settings.of({})


def test_settings_may_be_empty_but_for_the_database() -> None:
    settings = Settings.of({"QUEUELOG_DATABASE": "queue.db", "QUEUELOG_JOB_TYPES": "", "QUEUELOG_ADMIN_ROLE_ARNS": " "})
    assert settings.job_types == frozenset()
    assert settings.iam_roles == {}
