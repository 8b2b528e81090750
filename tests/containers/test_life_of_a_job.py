"""The whole life of a job over HTTP, each function in a container of its own, all of them over one file."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import JobStatus, Queue, Store
from queuelog_client.cli.registries import create
from tests.http.support import EVENTS
from tests.support import ROOT, admin, miscounted, query, unaccounted

if TYPE_CHECKING:
    from tests.containers.support import Api, Lab

#: What is claimed so comes back in no other test.
PDF = {"types": ["pdf"], "lease_seconds": 3_600}
EMAIL = {"type": "email", "payload": {"to": "ada@example.com"}}


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    """No job of one test is there in another."""
    for job in api.get("/jobs?status=pending&limit=100", "admin")["jobs"]:
        api.post(f"/jobs/{job['id']}/cancel", "admin")


def claim(api: Api, **fields: object) -> Any:
    return api.post("/jobs/claim", "worker", {"lease_seconds": 3_600, **fields})


def token(job: dict[str, Any]) -> dict[str, str]:
    return {"lease_token": job["lease_token"]}


def completed(api: Api) -> int:
    counts = api.get("/stats", "admin")["jobs"]
    return sum(each["count"] for each in counts if each["status"] == "completed")


def test_no_one_comes_in_without_a_key_that_is_known(api: Api) -> None:
    unknown = EVENTS["list_jobs"]["headers"]["X-Api-Key"]
    assert api.ask("GET", "/jobs").status == 401
    assert api.ask("GET", "/jobs", "no key at all").status == 401
    # SAM CLI's own answer; API Gateway makes the template's 401 of it.
    assert api.ask("GET", "/jobs", unknown).status == 403
    assert api.ask("GET", "/jobs", "producer").status == 200
    assert api.ask("GET", "/health").status == 200
    assert not [key for key in api.keys.values() if key in api.log.read_text()]


def test_a_key_that_is_made_meanwhile_works_at_once(api: Api) -> None:
    assert api.ask("GET", "/stats", create(api.data / "principals.json", "late", ["admin"])).status == 200


def test_what_a_key_may_do_goes_from_the_authoriser_to_the_functions(api: Api) -> None:
    assert api.ask("POST", "/jobs", "worker", EMAIL).status == 403
    assert api.ask("POST", "/jobs/claim", "producer").status == 403
    assert api.ask("GET", "/stats", "worker").status == 403
    job = api.post("/jobs", "producer", EMAIL)
    assert api.ask("GET", f"/jobs/{job['id']}", "worker").status == 404
    # /iam takes no keys, and here nobody signs.
    assert api.ask("GET", "/iam/jobs", "admin").status == 401


def test_a_job_is_enqueued_claimed_kept_and_completed(api: Api) -> None:
    sent = {**EMAIL, "idempotency_key": "welcome-ada"}
    enqueued = api.ask("POST", "/jobs", "producer", sent)
    assert (enqueued.status, enqueued.headers["Location"]) == (201, f"/jobs/{enqueued.body['id']}")
    again = api.ask("POST", "/jobs", "producer", sent)
    assert (again.status, again.headers["Idempotent-Replayed"], again.body) == (200, "true", enqueued.body)
    job = claim(api, types=["email"])
    assert (job["id"], job["payload"], job["attempt"]) == (enqueued.body["id"], EMAIL["payload"], 1)
    nothing = api.ask("POST", "/jobs/claim", "worker")
    assert (nothing.status, nothing.body) == (204, None)
    path = f"/jobs/{job['id']}"
    news = {"lease_seconds": 7_200, "progress": {"sent": 1}}
    beat = api.post(f"{path}/heartbeat", "worker", {**token(job), **news})
    assert beat["lease_expires_at"] > job["lease_expires_at"]
    assert api.get(f"{path}/explain", "producer")["state"] == "running"
    assert api.post(f"{path}/complete", "worker", {**token(job), "result": {"sent": 2}})["status"] == "completed"
    assert api.post(f"{path}/complete", "worker", {**token(job), "result": {"sent": 2}})["status"] == "completed"
    assert api.ask("POST", f"{path}/fail", "worker", token(job)).status == 409
    assert api.get(path, "producer")["result"] == {"sent": 2}
    assert job["id"] in [each["id"] for each in api.get("/jobs?status=completed", "producer")["jobs"]]


def test_a_job_fails_comes_back_is_released_cancelled_and_retried(api: Api) -> None:
    job = api.post("/jobs", "producer", EMAIL)
    path = f"/jobs/{job['id']}"
    assert api.post(f"{path}/fail", "worker", {**token(claim(api)), "error": "password=hunter2"})["status"] == "pending"
    seen = api.get(path, "admin")
    assert (seen["error"], seen["retry_count"]) == ("password=[redacted]", 1)
    assert api.post(f"{path}/release", "worker", token(claim(api)))["status"] == "pending"
    assert api.post(f"{path}/fail", "worker", {**token(claim(api)), "permanent": True})["status"] == "failed"
    assert api.post(f"{path}/retry", "admin")["status"] == "pending"
    assert api.post(f"{path}/cancel", "producer")["status"] == "cancelled"
    assert [each["outcome"] for each in api.get(path, "admin")["attempts"]] == ["failed", "released", "failed"]
    assert api.ask("POST", "/jobs/claim", "worker").status == 204


def test_a_batch_goes_through(api: Api) -> None:
    before = completed(api)
    made = api.post("/batch/enqueue", "producer", {"jobs": [EMAIL, EMAIL, EMAIL]})["jobs"]
    assert [item["code"] for item in made] == [201, 201, 201]
    jobs = api.post("/batch/claim", "worker", {"limit": 100, "lease_seconds": 3_600})["jobs"]
    assert [job["id"] for job in jobs] == [item["job"]["id"] for item in made]
    held = [{"id": job["id"], **token(job)} for job in jobs]
    beats = api.post("/batch/heartbeat", "worker", {"jobs": held})["jobs"]
    assert all("lease_expires_at" in beat for beat in beats)
    outcomes = ["completed", "completed", "failed"]
    ends = [{**job, "outcome": outcome} for job, outcome in zip(held, outcomes, strict=True)]
    ends[2]["permanent"] = True
    assert [item["code"] for item in api.post("/batch/finish", "worker", {"jobs": ends})["jobs"]] == [200, 200, 200]
    retried = api.post("/batch/retry", "admin", {"status": "failed", "failed_after": jobs[0]["claimed_at"]})
    assert retried["ids"] == [jobs[2]["id"]]
    assert api.get(f"/jobs/{jobs[2]['id']}", "admin")["status"] == "pending"
    assert completed(api) == before + 2


def test_what_a_dead_worker_held_comes_back_with_the_sweep(api: Api, lab: Lab) -> None:
    job = api.post("/jobs", "producer", EMAIL)
    lost = claim(api, lease_seconds=1)
    time.sleep(1.1)
    # A function that no route leads to, beside the containers that have the file open.
    swept = lab.invoke("SweepFunction", ROOT / "events/sweep.json", api.data).answer
    assert swept["leases_expired"] == 1
    assert api.get(f"/jobs/{job['id']}", "producer")["reason"] == "lease_expired"
    late = api.ask("POST", f"/jobs/{job['id']}/complete", "worker", token(lost))
    assert (late.status, late.body["type"]) == (409, "urn:queuelog:problem:lease-lost")
    assert api.post(f"/jobs/{job['id']}/complete", "worker", token(claim(api)))["status"] == "completed"


def test_containers_that_claim_at_once_never_get_the_same_job(api: Api) -> None:
    def enqueue(number: int) -> list[int]:
        one = api.post("/jobs", "producer", {"type": "pdf", "idempotency_key": f"at-once-{number}"})
        more = api.post("/batch/enqueue", "producer", {"jobs": [{"type": "pdf"}] * 3})["jobs"]
        return [one["id"], *(item["job"]["id"] for item in more)]

    def claim_one(_: int) -> list[int]:
        answer = api.ask("POST", "/jobs/claim", "worker", PDF)
        return [answer.body["id"]] if answer.status == 200 else []

    def claim_some(_: int) -> list[int]:
        answer = api.ask("POST", "/batch/claim", "worker", {**PDF, "limit": 2})
        return [job["id"] for job in answer.body["jobs"]] if answer.status == 200 else []

    with ThreadPoolExecutor(6) as pool:
        enqueued = [pool.submit(enqueue, number) for number in range(10)]
        claimed = [pool.submit(verb, number) for number in range(20) for verb in (claim_one, claim_some)]
        made = list(chain.from_iterable(each.result() for each in enqueued))
        got = list(chain.from_iterable(each.result() for each in claimed))
    while more := claim_some(0):
        got += more
    assert Counter(got) == Counter(made)
    assert len(made) == 40


def test_the_file_is_whole_and_this_machine_reads_it_too(api: Api) -> None:
    job = api.post("/jobs", "producer", {"type": "sync"})
    database = api.data / "queue.db"
    with closing(Store(database)) as store:
        assert Queue(store).bound(admin()).get(job["id"]).status is JobStatus.PENDING
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
    assert query(database, "PRAGMA journal_mode") == [("wal",)]
    assert miscounted(database) == set()
    assert unaccounted(database) == []


def test_every_function_that_the_api_leads_to_has_a_container_of_its_own_on_the_same_directory(api: Api) -> None:
    expected = {"AuthorizeFunction"}
    for path, methods in json.loads((ROOT / "docs/api/openapi.json").read_text())["paths"].items():
        for method in methods.keys() & {"get", "post"}:
            asked = (method.upper(), path.replace("{id}", "1"), "admin")
            assert (api.ask(*asked, {}) if method == "post" else api.ask(*asked)).status < 500
            expected.add("".join(part.title() for part in methods[method]["operationId"].split("_")) + "Function")
    mounts = {
        container.labels["sam.cli.function.name"]: {
            mount["Destination"]: mount["Source"] for mount in container.attrs["Mounts"]
        }
        for container in api.containers()
    }
    assert mounts == {
        name: {"/var/task": str(ROOT / ".aws-sam/build" / name), "/mnt/queue": str(api.data)} for name in expected
    }
