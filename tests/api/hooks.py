"""What Schemathesis can't know, since OpenAPI has no words for it. Whatever else it finds is a failure."""

from __future__ import annotations

import atexit
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

if TYPE_CHECKING:
    from collections.abc import Callable

#: Why a request can be wrong that its schema allows: the fault's code, or the problem's name where it has no faults.
BEYOND_SCHEMAS = {
    "idempotency-key-reused": "whether a key came before with another request is not in this one",
    "invalid_cursor": "a cursor is what a list has returned, and for its order alone",
    "invalid_key": "JSON Schema's patterns don't know Unicode's printable characters everywhere",
    "key_reused": "as idempotency-key-reused, in a batch",
    "needs_pending": "OpenAPI can't make one parameter depend on another",
    "too_large": "JSON Schema counts characters and not the bytes of compact JSON",
    "two_keys": "OpenAPI can't make a field of the body depend on a header",
}
#: Years in which a time may have no UTC; of these, only 0000 is a leap year, as is what stands in for them.
EDGE_OF_THE_CALENDAR = re.compile(r"^(0000|0001|9999)(?=-\d\d-\d\dT)")
sent: Counter[tuple[str, int]] = Counter()


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    """Write 5.0 as 5, for JSON Schema takes both as integers and this API one; give times a year that Python has."""
    return _rewritten(body)


@schemathesis.check
def valid_data_is_accepted(context: Any, response: Any, case: Any) -> bool | None:
    """Check what positive_data_acceptance does, but for rules that no schema can tell."""
    if response.status_code == 422 and _reasons(response.json()) <= BEYOND_SCHEMAS.keys():
        return None
    return _checked(positive_data_acceptance, context, response, case)


@schemathesis.check
def other_methods_are_refused(context: Any, response: Any, case: Any) -> bool | None:
    """Check what unsupported_method does, but for API Gateway, which knows no 405: it answers 403 by itself."""
    if response.status_code == 403 and "instance" not in response.json():
        return None
    return _checked(unsupported_method, context, response, case)


@schemathesis.hook
def after_call(_: Any, case: Any, response: Any) -> None:
    """Count it."""
    sent[case.operation.definition.raw.get("operationId", "another method"), response.status_code] += 1


@atexit.register
def tell() -> None:
    """Print which answers each route gave, and how often."""
    print(f"\n{sent.total()} requests were sent. Answers by route:")
    for name in sorted({name for name, _ in sent}):
        counts = (f"{count} of {status}" for (route, status), count in sorted(sent.items()) if route == name)
        print(f"  {name:16} {', '.join(counts)}")


def _rewritten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rewritten(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rewritten(each) for each in value]
    if isinstance(value, str):
        return EDGE_OF_THE_CALENDAR.sub("2024", value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reasons(problem: dict[str, Any]) -> set[str]:
    return {fault["code"] for fault in problem.get("errors", [])} or {problem["type"].rpartition(":")[2]}


def _checked(check: Callable[[Any, Any, Any], bool | None], context: Any, response: Any, case: Any) -> bool | None:
    return check(context, response, case)
