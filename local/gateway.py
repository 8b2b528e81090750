"""SAM CLI's API Gateway emulator, with the template's own answers where the gateway itself refuses or fails."""

from __future__ import annotations

import json
import logging
import time
import traceback
import uuid
from typing import TYPE_CHECKING, Any

from flask import Request, Response
from samcli.lib.telemetry.event import EventTracker
from samcli.local.apigw.exceptions import (
    AuthorizerUnauthorizedRequest,
    InvalidLambdaAuthorizerResponse,
    LambdaResponseParseException,
)
from samcli.local.apigw.local_apigw_service import LocalApigwService
from werkzeug.exceptions import HTTPException

from local.functions import FunctionFailedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from samcli.lib.providers.provider import Api
    from samcli.local.apigw.authorizers.lambda_authorizer import LambdaAuthorizer
    from samcli.local.apigw.route import Route

    from local.functions import Functions

# What API Gateway answers with where a template says nothing.
_STATUS_AND_MESSAGE = {
    "ACCESS_DENIED": (403, "User is not authorized to access this resource"),
    "AUTHORIZER_CONFIGURATION_ERROR": (500, "Internal server error"),
    "AUTHORIZER_FAILURE": (500, "Internal server error"),
    "DEFAULT_4XX": (400, "Bad Request"),
    "DEFAULT_5XX": (502, "Internal server error"),
    "MISSING_AUTHENTICATION_TOKEN": (403, "Missing Authentication Token"),
    "REQUEST_TOO_LARGE": (413, "Request Too Long"),
    "UNAUTHORIZED": (401, "Unauthorized"),
}
_REQUEST_LIMIT_BYTES = 10 * 1024 * 1024

# SAM CLI warns of every answer without a body and of every denied key; what matters is raised or printed below.
logging.getLogger("samcli").setLevel(logging.CRITICAL)


class GatewayError(Exception):
    """API Gateway's own answer to a request, by the name that it has in a template's GatewayResponses."""

    def __init__(self, response_type: str) -> None:
        super().__init__(response_type)
        self.response_type = response_type


class GatewayResponses:
    """The answers that a template's API gives in the gateway's name; variables in them stay as they are."""

    def __init__(self, templates: Mapping[str, Any]) -> None:
        self._templates = templates

    def render(self, response_type: str) -> Response:
        """Return the answer of that type, or else of its DEFAULT_4XX or DEFAULT_5XX, or else API Gateway's own."""
        status, message = _STATUS_AND_MESSAGE[response_type]
        template = self._templates.get(response_type) or self._templates.get(f"DEFAULT_{status // 100}XX") or {}
        # A literal stands in quotes there; anything else would be taken from the request.
        headers = {
            name: value.strip("'")
            for name, value in template.get("ResponseParameters", {}).get("Headers", {}).items()
            if value.startswith("'")
        }
        return Response(
            next(iter(template.get("ResponseTemplates", {}).values()), json.dumps({"message": message})),
            status=template.get("StatusCode", status),
            headers={"Content-Type": "application/json"} | headers,
        )


class Gateway(LocalApigwService):  # type: ignore[misc]  # SAM CLI has no types
    """The emulator, made to answer as the deployed API does where it would answer in its own words."""

    def __init__(self, api: Api, functions: Functions, responses: GatewayResponses, host: str, port: int) -> None:
        super().__init__(api=api, lambda_runner=functions, static_dir=None, port=port, host=host)
        self._responses = responses
        self._paths = {tuple(_parts(route.path)) for route in api.routes}
        self.create()
        self.app = self._app
        self.app.config["MAX_CONTENT_LENGTH"] = _REQUEST_LIMIT_BYTES
        self.app.url_map.merge_slashes = False

    def _construct_error_handling(self) -> None:
        self._app.register_error_handler(Exception, self._answer)

    def _answer(self, error: Exception) -> Response:
        return self._responses.render(_response_type(error))

    def _request_handler(self, **path_parameters: str) -> Any:
        # It collects an event for every authorised call, to be sent home fifty at a time.
        EventTracker.clear_trackers()
        return super()._request_handler(**path_parameters)

    def _get_current_route(self, flask_request: Request) -> Any:
        try:
            route = super()._get_current_route(flask_request)
        except KeyError as error:
            # Flask adds HEAD to every GET; the API has no such method.
            raise GatewayError("MISSING_AUTHENTICATION_TOKEN") from error
        # Flask goes back where a name leads nowhere, and takes /jobs/claim/fail for the job called claim.
        if _resource(self._paths, flask_request.path) != tuple(_parts(route.path)):
            raise GatewayError("MISSING_AUTHENTICATION_TOKEN")
        return route

    def _valid_identity_sources(self, request: Request, route: Route) -> bool:
        if not super()._valid_identity_sources(request, route):
            raise GatewayError("UNAUTHORIZED")
        return True

    def _generate_lambda_event(self, flask_request: Request, route: Route, method: str, endpoint: str) -> Any:
        event = super()._generate_lambda_event(flask_request, route, method, endpoint)
        event["isBase64Encoded"] = event["isBase64Encoded"] and bool(event["body"])
        # The emulator fixes these when it starts, and puts the route's pattern in the place of the path.
        event["requestContext"] |= {
            "path": flask_request.path,
            "requestId": str(uuid.uuid4()),
            "requestTimeEpoch": int(time.time() * 1000),
        }
        return event

    def _invoke_parse_lambda_authorizer(
        self,
        lambda_authorizer: LambdaAuthorizer,
        auth_lambda_event: dict[str, Any],
        route_lambda_event: dict[str, Any],
        route: Route,
    ) -> None:
        try:
            super()._invoke_parse_lambda_authorizer(lambda_authorizer, auth_lambda_event, route_lambda_event, route)
        except AuthorizerUnauthorizedRequest as error:
            raise GatewayError("ACCESS_DENIED") from error
        except FunctionFailedError as error:
            raise GatewayError("AUTHORIZER_FAILURE") from error
        except (InvalidLambdaAuthorizerResponse, LambdaResponseParseException) as error:
            traceback.print_exc()
            raise GatewayError("AUTHORIZER_CONFIGURATION_ERROR") from error
        context = route_lambda_event["requestContext"]["authorizer"]
        route_lambda_event["requestContext"]["authorizer"] = {name: _text(value) for name, value in context.items()}

    def _parse_v1_payload_format_lambda_output(self, *args: Any) -> Any:
        try:
            return super()._parse_v1_payload_format_lambda_output(*args)
        except LambdaResponseParseException as error:
            traceback.print_exc()
            raise GatewayError("DEFAULT_5XX") from error


def _response_type(error: Exception) -> str:
    if isinstance(error, GatewayError):
        return error.response_type
    if isinstance(error, HTTPException):
        if error.code in {404, 405}:
            return "MISSING_AUTHENTICATION_TOKEN"
        return "REQUEST_TOO_LARGE" if error.code == 413 else "DEFAULT_4XX"
    if not isinstance(error, FunctionFailedError):
        traceback.print_exception(error)
    return "DEFAULT_5XX"


def _resource(paths: Collection[tuple[str, ...]], asked: str) -> tuple[str, ...]:
    """Return the path of the API that one asked for leads to: at each level a name comes before a {parameter}."""
    found: tuple[str, ...] = ()
    for part in _parts(asked):
        known = {path[len(found)] for path in paths if path[: len(found)] == found and len(path) > len(found)}
        parameter = next((each for each in known if each.startswith("{")), "")
        found += (part if part in known else parameter,)
    return found


def _parts(path: str) -> list[str]:
    return path.strip("/").split("/")


def _text(value: object) -> str:
    """Return a value of the authoriser's context as API Gateway hands it on: it takes no objects and no arrays."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise GatewayError("AUTHORIZER_CONFIGURATION_ERROR")
