"""How a client comes in: by which address, with what, and what nobody may ever see."""

from __future__ import annotations

import logging
import pickle
import traceback
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from queuelog_client import JobStatus, NewJob, NoAnswer, QueueClient, QueuelogError, Unauthorized, UnexpectedAnswer
from tests.client.support import Sent, Told, Waits, Wire, problem

KEY = "ql_abcdefgh_SECRETSECRETSECRET"
URL = "https://abc123.execute-api.eu-central-1.amazonaws.com/v1"
EMPTY = Told(200, {"jobs": [], "next_cursor": None})


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/v1",
        "http://10.0.0.1:3000",
        "http://localhost.example.com",
        "ftp://example.com",
        "example.com/v1",
        "https://me:secret@example.com",
        "https://example.com/v1?stage=1",
        "https://example.com/v1#top",
    ],
)
def test_an_address_over_which_a_key_would_be_seen_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url must") as refused:
        QueueClient(url, api_key=KEY)
    assert "secret" not in str(refused.value).lower()


@pytest.mark.parametrize(
    "url", ["http://localhost:3000", "http://127.0.0.1:3000", "http://127.3.2.1", "http://[::1]:3000", URL]
)
def test_this_machine_may_be_called_without_encryption(url: str) -> None:
    assert repr(QueueClient(url, api_key=KEY)) == f"QueueClient({url!r})"


def test_another_machine_may_be_called_so_if_that_is_said() -> None:
    QueueClient("http://example.com", api_key=KEY, allow_http=True)


@pytest.mark.parametrize("entries", [{}, {"api_key": KEY, "auth": "iam"}])
def test_there_is_one_way_in(entries: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either api_key or auth"):
        QueueClient(URL, **entries)


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Evil: 1", f"{KEY} ", "", f"{KEY}é", f"{KEY}\0"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValueError, match="api_key must be") as refused:
        QueueClient(URL, api_key=key)
    assert "SECRET" not in "".join(traceback.format_exception(refused.value))


def test_a_key_is_sent_in_its_header_and_seen_nowhere_else(alone: Wire, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = alone.client(KEY, Waits().retries(count=1))
    alone.plan.extend([EMPTY, Told(401, problem(401, "unauthorized")), "lose the request", "lose the request"])
    client.list()
    assert alone.sent[0].headers["X-Api-Key"] == KEY
    assert "SECRET" not in alone.sent[0].path
    seen = [repr(client), str(client), repr(client.once()), caplog.text]
    for _ in range(2):
        with pytest.raises(QueuelogError) as failed:
            client.list()
        seen += [*traceback.format_exception(failed.value), repr(failed.value), str(vars(failed.value))]
        seen += [str(pickle.dumps(failed.value))]
    assert "SECRET" not in "".join(seen)


def test_a_redirect_is_not_followed(alone: Wire) -> None:
    with Wire(None) as elsewhere:
        alone.plan.extend([Told(307, None, {"Location": f"{elsewhere.url}/jobs"})])
        with pytest.raises(UnexpectedAnswer) as refused:
            alone.client(KEY).enqueue(NewJob(type="email"))
        assert refused.value.status == 307
        assert elsewhere.sent == []


@pytest.mark.parametrize("told", [Told(200, b"<html>"), Told(200, {"jobs": 5}), Told(200, {"jobs": [{"id": 1}]})])
def test_what_is_no_answer_of_a_queue_is_said_to_be_none(alone: Wire, told: Told) -> None:
    alone.plan.extend([told])
    with pytest.raises(UnexpectedAnswer):
        alone.client().list()


def test_requests_say_who_sends_them_and_share_a_connection(alone: Wire) -> None:
    alone.plan.extend([EMPTY] * 3)
    ports = set()
    client = alone.client()
    for _ in range(3):
        client.list()
        (pool,) = client._transport.connections._pool.pools._container.values()
        ports.add(pool.num_connections)
    assert ports == {1}
    assert alone.sent[0].headers["User-Agent"].startswith("queuelog-client/")


def test_a_number_that_is_none_never_gets_into_a_path(alone: Wire) -> None:
    with pytest.raises(ValueError, match="format code"):
        alone.client().get("1/cancel")  # type: ignore[arg-type]
    assert alone.sent == []


class Session:
    """Credentials that change, as a role's do."""

    def __init__(self, credentials: Any) -> None:
        self.credentials = credentials

    def get_credentials(self) -> Any:
        return self.credentials


def signed_by_botocore(sent: Sent, url: str, credentials: Any, region: str) -> str:
    """What botocore itself would have written into this request, at the time that it tells."""
    names = sent.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: value for name, value in sent.headers.items() if name.lower() in set(names) - {"host"}}
    request = AWSRequest("POST" if sent.body else sent.method, url, headers=headers, data=sent.body)
    request.context["timestamp"] = sent.headers["X-Amz-Date"]
    signer = SigV4Auth(credentials, "execute-api", region)
    canonical = signer.canonical_request(request)
    return str(signer.signature(signer.string_to_sign(request, canonical), request))


@pytest.mark.parametrize("token", [None, "a-session-token"])
def test_a_signature_is_botocore_s_over_what_was_sent(alone: Wire, token: str | None) -> None:
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    client = QueueClient(
        f"{alone.url}/v1/iam",
        auth="iam",
        region="eu-central-1",
        session=Session(credentials),
        retries=Waits().retries(),
    )
    alone.plan.extend([EMPTY, Told(204, None, {"Retry-After": "3"}), Told(403, problem(403, "forbidden"))])
    client.list(status=JobStatus.PENDING, cursor="a b~c=+/ü", type="e.m:a_i-l")
    assert client.claim_jobs(limit=2, types=["email"]) == ((), 3)
    with pytest.raises(QueuelogError):
        client.enqueue(NewJob(type="email", payload={"a": "ü/+"}))
    assert [sent.path.partition("?")[0] for sent in alone.sent] == [
        "/v1/iam/jobs",
        "/v1/iam/batch/claim",
        "/v1/iam/jobs",
    ]
    for sent in alone.sent:
        assert sent.headers.get("X-Amz-Security-Token") == token
        assert "X-Api-Key" not in sent.headers
        scope = f"{sent.headers['X-Amz-Date'][:8]}/eu-central-1/execute-api/aws4_request"
        assert f"Credential=AKIDEXAMPLE/{scope}" in sent.headers["Authorization"]
        expected = signed_by_botocore(sent, f"{alone.url}{sent.path}", credentials, "eu-central-1")
        assert sent.headers["Authorization"].endswith(f"Signature={expected}")
    # A cursor in it is written so that both ends read the same.
    assert alone.sent[0].path.endswith("cursor=a%20b~c%3D%2B%2F%C3%BC&order=newest")


def test_credentials_are_renewed_and_a_repeat_is_signed_anew(alone: Wire) -> None:
    made: list[str] = []

    def renew() -> dict[str, str]:
        made.append(f"AKID{len(made)}")
        expiry = datetime.now(UTC) + timedelta(seconds=60)
        return {"access_key": made[-1], "secret_key": "s", "token": "t", "expiry_time": expiry.isoformat()}

    # They are as good as over when they come, so that each request asks for others.
    credentials = RefreshableCredentials.create_from_metadata(
        renew(), renew, "test", advisory_timeout=3_600, mandatory_timeout=3_600
    )
    client = QueueClient(
        alone.url, auth="iam", region="eu-central-1", session=Session(credentials), retries=Waits().retries()
    )
    alone.plan.extend([Told(503, problem(503, "storage-busy")), EMPTY])
    client.list()
    used = [sent.headers["Authorization"].partition("Credential=")[2].partition("/")[0] for sent in alone.sent]
    assert len(set(used)) == 2
    assert set(used) <= set(made)


def test_the_region_comes_from_the_address_unless_it_is_said() -> None:
    session = Session(None)
    assert QueueClient(URL, auth="iam", session=session)._transport._auth._region == "eu-central-1"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="region"):
        QueueClient("https://queue.example.com", auth="iam", session=session)


def test_without_credentials_nothing_is_sent(alone: Wire) -> None:
    client = QueueClient(alone.url, auth="iam", region="eu-central-1", session=Session(None))
    with pytest.raises(Unauthorized, match="no AWS credentials"):
        client.list()
    assert alone.sent == []


def test_credentials_that_can_t_be_had_now_are_asked_for_again(alone: Wire) -> None:
    class Late(Session):
        def get_credentials(self) -> Any:
            if self.credentials is None:
                self.credentials = Credentials("AKID", "secret")
                raise CredentialRetrievalError(provider="container-role", error_msg="time-out")
            return self.credentials

    client = QueueClient(alone.url, auth="iam", region="eu-central-1", session=Late(None), retries=Waits().retries())
    alone.plan.extend([EMPTY])
    assert client.list() == ((), None)
    with pytest.raises(NoAnswer, match="AWS credentials") as failed:
        QueueClient(
            alone.url, auth="iam", region="eu-central-1", session=Late(None), retries=Waits().retries(count=0)
        ).list()
    assert failed.value.nothing_done


def test_whether_a_queue_is_well_is_asked_without_a_name(alone: Wire) -> None:
    alone.plan.extend([Told(503, problem(503, "storage-unavailable")), Told(HTTPStatus.OK, {"status": "ok"})])
    client = QueueClient(f"{alone.url}/v1", auth="iam", region="eu-central-1", session=Session(None))
    assert [client.is_healthy(), client.is_healthy()] == [False, True]
    assert [(sent.method, sent.path) for sent in alone.sent] == [("GET", "/v1/health")] * 2


def test_a_certificate_that_nobody_vouches_for_gets_no_key(impostor: str) -> None:
    waits = Waits()
    with pytest.raises(UnexpectedAnswer, match="certificate"):
        QueueClient(impostor, api_key=KEY, retries=waits.retries()).list()
    assert waits.slept == []
