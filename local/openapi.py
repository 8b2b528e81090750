"""Write docs/api/openapi.json: the whole API in one OpenAPI 3.1 document, made from what each handler declares."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs/api/openapi.json"
#: In the order in which a reader needs them.
HANDLERS = (
    "enqueue_job",
    "list_jobs",
    "get_job",
    "explain_job",
    "claim_job",
    "heartbeat_job",
    "complete_job",
    "fail_job",
    "release_job",
    "cancel_job",
    "retry_job",
    "get_stats",
    "enqueue_jobs",
    "claim_jobs",
    "heartbeat_jobs",
    "finish_jobs",
    "retry_jobs",
    "health",
)

#: Powertools adds these to every document, for answers that its own validation would give.
_UNUSED_SCHEMAS = {"HTTPValidationError", "ResponseValidationError", "ValidationError"}

_URL = "https://{api}.execute-api.{region}.amazonaws.com/v1"
_VARIABLES = {
    "api": {"default": "a1b2c3d4e5", "description": "The API's id; the stack's outputs show the whole URL"},
    "region": {"default": "eu-central-1"},
}
WITH_KEY = {"url": _URL, "description": "With an API key", "variables": _VARIABLES}
SIGNED = {"url": f"{_URL}/iam", "description": "With a signature of an IAM role", "variables": _VARIABLES}

SECURITY_SCHEMES = {
    "ApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "A key of the queue's own registry, for the server that ends in /v1",
    },
    "Signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4 for the service execute-api, for the server that ends in /v1/iam",
        "x-amazon-apigateway-authtype": "awsSigv4",
    },
}


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the whole API; it depends on the code alone."""
    project = tomllib.loads((ROOT / "layers/queuelog/pyproject.toml").read_text("utf-8"))["project"]
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for handler in HANDLERS:
        module = import_module(handler)
        # Powertools writes the bounds of integers as floats.
        made = json.loads(module.app.get_openapi_json_schema(), parse_float=lambda number: int(float(number)))
        schemas |= made["components"]["schemas"]
        ((path, operations),) = made["paths"].items()
        ((method, operation),) = operations.items()
        described = {"operationId": handler, "description": getattr(module, handler).__doc__}
        paths.setdefault(path, {})[method] = operation | described
    # Open to anyone, and so without a second door.
    paths["/health"]["servers"] = [WITH_KEY]
    paths["/health"]["get"]["security"] = []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queuelog",
            "version": project["version"],
            "description": project["description"] + ".",
            "license": {"name": project["license"], "identifier": project["license"]},
        },
        "servers": [WITH_KEY, SIGNED],
        "security": [{"ApiKey": []}, {"Signature": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas.keys() - _UNUSED_SCHEMAS)},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def text() -> str:
    """Return the document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
