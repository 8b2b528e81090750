"""What the handlers share: one application per function, and what it does around each request."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.middlewares.openapi_validation import OpenAPIRequestValidationMiddleware
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.metrics import MetricUnit

from queuelog.errors import QueuelogError, StorageError
from queuelog.job import canonical_json
from queuelog.queue import BoundQueue, Queue
from queuelog.store import Store
from web.body import MAX_BODY_BYTES, read_body, strict_object
from web.clock import clock_of
from web.principals import principal_of
from web.problems import InvalidJson, kind_of, problem
from web.settings import settings
from web.view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from queuelog.job import Attempt, Job
    from queuelog.principal import Principal

#: What to do about a fault of the storage, for whoever reads of it in the log.
HELP = "docs/operations.md, When the storage fails"

logger = Logger()
metrics = Metrics()


@cache
def store() -> Store:
    """Return this process's store; it is kept between requests and opens its file at the first one."""
    return Store(settings().database, policy=settings().policy)


@contextmanager
def faults_logged(context: Any, **keys: Any) -> Iterator[None]:
    """Log a StorageError of the block as the routes do, with more keys, and let it pass: Lambda counts it."""
    try:
        yield
    except StorageError as error:
        _log_fault(error, context, **keys)
        raise


def _log_fault(error: Exception, context: Any, **keys: Any) -> None:
    # The caller gets no text of an unknown one, which may hold what was sent; the log has its traceback.
    message = str(error) if isinstance(error, QueuelogError) else "unexpected error"
    if isinstance(error, StorageError):
        # SQLite's text says "disk I/O error" of a dozen things that its name tells apart.
        name = getattr(error.__cause__, "sqlite_errorname", None)
        keys |= {"database": str(settings().database), "help": HELP} | ({"sqlite_error": name} if name else {})
    logger.error(message, exc_info=error, request_id=context.aws_request_id, **keys)


class App(APIGatewayRestResolver):
    """The application of one route, which serves both doors: /jobs… with a key, /iam/jobs… with a signature.

    A request passes, in this order: who is calling (401), may they use this verb at all (403), is the body one JSON
    object (413, 415, 400), are its fields right (422). Powertools' own validation runs before every middleware, so that
    an unsigned call with a bad body would get 422; hence it stays off and comes in as the last middleware.
    """

    def __init__(self, verb: str | None, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        """Make the application of the handler of one of the queue's verbs; None is a route that needs no principal."""
        super().__init__(strip_prefixes=["/iam"], serializer=_to_json)
        self.verb = verb
        self.max_body_bytes = max_body_bytes
        self.log_keys: dict[str, Any] = {}
        self.use([*([_let_in] if verb else []), _RequestValidation()])  # type: ignore[no-untyped-call]
        self.exception_handler([Exception, NotFoundError])(self._problem)

    @property
    def principal(self) -> Principal:
        """Who is calling."""
        principal: Principal = self.context["principal"]
        return principal

    @property
    def path(self) -> str:
        """The path asked for, with the stage, as a caller would write it."""
        request = self.current_event.raw_event.get("requestContext") or {}
        return str(request.get("path") or self.current_event.path)

    @property
    def queue(self) -> BoundQueue:
        """The queue's verbs for who is calling, at the clock's time."""
        return Queue(store()).bound(self.principal, clock_of(self.lambda_context))

    def answer(
        self,
        job: Job,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        *,
        is_over: bool = False,
        attempts: Iterable[Attempt] | None = None,
    ) -> Response[dict[str, Any]]:
        """Return the answer that shows one job as the caller may see it; is_over and attempts are as in view."""
        self.log_keys["job_id"] = job.id
        body = view(job, self.principal, is_over=is_over, attempts=attempts)
        return Response(status, "application/json", body, {**(headers or {})})

    def nothing_due(self, retry_after: int) -> Response[None]:
        """Return the answer to a claim that found nothing, with the seconds after which to ask again."""
        return Response(HTTPStatus.NO_CONTENT, headers={"Retry-After": str(retry_after)})

    def handler(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer an API Gateway event; log and count it."""
        started = time.perf_counter()
        self.log_keys = {}
        answer = self.resolve(event, context)
        self._observe(event, context, answer["statusCode"], (time.perf_counter() - started) * 1000)
        return answer

    @staticmethod
    def _compile_regex(rule: str, *_: str) -> re.Pattern[str]:
        # Powertools' own ends in $, which lets a line break pass after it: /jobs/1%0A is not a job.
        compiled: re.Pattern[str] = super(App, App)._compile_regex(rule)
        return re.compile(compiled.pattern.removesuffix("$") + r"\Z")

    def _problem(self, error: Exception) -> Response[str]:
        kind = kind_of(error)
        self.log_keys["problem"] = kind.slug
        if kind.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # Handled exceptions are logged by nobody else.
            _log_fault(error, self.lambda_context)
        return problem(error, self.path)

    def _observe(self, event: dict[str, Any], context: Any, status: int, milliseconds: float) -> None:
        verb = self.verb or "health"
        logger.info(
            "request",
            request_id=context.aws_request_id,
            route=f"{event.get('httpMethod')} {event.get('resource')}",
            status=status,
            milliseconds=round(milliseconds, 2),
            **self.log_keys,
        )
        metrics.add_dimension(name="verb", value=verb)
        metrics.add_metric(name="Requests", unit=MetricUnit.Count, value=1)
        metrics.add_metric(name="Duration", unit=MetricUnit.Milliseconds, value=milliseconds)
        metrics.add_metric(name="Refused", unit=MetricUnit.Count, value=int(400 <= status < 500))
        metrics.add_metric(name="Errors", unit=MetricUnit.Count, value=int(status >= 500))
        metrics.flush_metrics()


# Not a method: Powertools keeps what it learns of a middleware's signature as an attribute of it, which a bound method
# can't have, so that it would evaluate these annotations again for every request: a fifth of its time.
def _let_in(app: App, next_middleware: Callable[..., Response[Any]]) -> Response[Any]:
    principal = principal_of(app.current_event.raw_event, settings())
    app.log_keys["principal"] = principal.name
    app.context["principal"] = principal
    principal.require(str(app.verb))
    return next_middleware(app)


class _RequestValidation(OpenAPIRequestValidationMiddleware):
    """Powertools' validation with a strict reader of the body; unknown and repeated query parameters are faults."""

    def handler(self, app: Any, next_middleware: Callable[..., Response[Any]]) -> Response[Any]:
        known = {parameter.alias for parameter in app.context["_route"].dependant.query_params}
        more = _query_faults(app.current_event.raw_event, known)

        def unless_more(app: Any) -> Response[Any]:
            if more:
                raise RequestValidationError([])
            # Known from here on, so that the line of a refusal names its job as well.
            if "id" in app.context["_route_args"]:
                app.log_keys["job_id"] = app.context["_route_args"]["id"]
            return next_middleware(app)

        try:
            return super().handler(app, unless_more)  # type: ignore[arg-type]
        except RequestValidationError as error:
            raise RequestValidationError([*error.errors(), *more]) from None

    def _get_body(self, app: Any) -> dict[str, Any] | None:  # type: ignore[override]
        text = read_body(app.current_event.raw_event, app.current_event.headers.get("content-type"), app.max_body_bytes)
        (body,) = app.context["_route"].dependant.body_params
        if body.required and not text:
            raise InvalidJson
        return strict_object(text) if text else None


def _query_faults(event: Mapping[str, Any], known: set[str]) -> list[dict[str, Any]]:
    sent: Mapping[str, list[str]] = event.get("multiValueQueryStringParameters") or {}
    unknown = [("unknown_parameter", name, "is not a parameter of this route") for name in sent if name not in known]
    repeated = [("repeated_parameter", name, "may be given once") for name, values in sent.items() if len(values) > 1]
    return [{"type": code, "loc": ("query", name), "msg": message} for code, name, message in unknown + repeated]


def _to_json(value: object) -> str:
    # The same compact form that page sizes are counted in.
    return canonical_json(value, sort_keys=False)
