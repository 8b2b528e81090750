"""What OpenAPI says of a route beyond its parameters: its answers, their headers, and its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from web.models import Problem
from web.problems import CONTENT_TYPE, GATEWAY_KINDS, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from http import HTTPStatus

    from pydantic import BaseModel

    from web.problems import Kind

#: Problems of every route with a principal.
ALWAYS = (
    "bad-request",
    "unauthorized",
    "forbidden",
    "validation-failed",
    "too-many-requests",
    "internal-error",
    "storage-busy",
    "storage-unavailable",
)
#: Problems of a route that reads a body.
BODY = ("invalid-json", "payload-too-large", "unsupported-media-type")

HEADERS: dict[str, dict[str, Any]] = {
    "Idempotent-Replayed": {
        "description": "An earlier request with the same idempotency key made the job",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Location": {"description": "The job's path", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait before the next try", "schema": {"type": "integer"}},
}


def documented(
    summary: str,
    answers: Mapping[HTTPStatus, tuple[str, type[BaseModel] | None, *tuple[str, ...]]],
    problems: Iterable[str] = ALWAYS,
) -> dict[str, Any]:
    """Return the arguments of a Powertools route that document it.

    answers: for each status its description, its body's model, and the names of its headers. problems: their slugs.
    """
    responses: dict[int, dict[str, Any]] = {status: _answer(*answer) for status, answer in answers.items()}
    kinds = {kind.slug: kind for kind in (*KINDS.values(), *GATEWAY_KINDS)}
    found = [kinds[slug] for slug in sorted(problems)]
    responses |= {
        status: _problems([kind for kind in found if kind.status == status])
        for status in sorted({kind.status for kind in found})
    }
    return {"summary": summary, "responses": responses}


def _answer(description: str, model: type[BaseModel] | None, *headers: str) -> dict[str, Any]:
    # Said even when there is none: Powertools would take an absent content for the function's return type.
    content = {} if model is None else {"application/json": {"model": model}}
    return {"description": description, **_headers(headers), "content": content}


def _problems(kinds: list[Kind]) -> dict[str, Any]:
    headers = ["Retry-After"] if any(kind.retry_after for kind in kinds) else []
    description = " or ".join(kind.slug for kind in kinds)
    return {"description": description, **_headers(headers), "content": {CONTENT_TYPE: {"model": Problem}}}


def _headers(names: Iterable[str]) -> dict[str, Any]:
    found = {name: HEADERS[name] for name in names}
    return {"headers": found} if found else {}
