"""The template as CloudFormation gets it: after SAM's transform, and with its own words for what SAM leaves out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samcli.lib.translate.sam_template_validator import SamTemplateValidator
from samcli.yamlhelper import yaml_parse

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@cache
def source() -> dict[str, Any]:
    """Return the template as it is written, with short intrinsics (!Ref) in their long form ({"Ref": …})."""
    return dict(yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8")))


@cache
def translated() -> dict[str, Any]:
    """Return the template as SAM's transform makes it, for no account and any region."""
    copy = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
    validator = SamTemplateValidator(copy, managed_policy_loader=None, region="eu-central-1")
    return dict(yaml_parse(validator.get_translated_template_if_valid()))


def resources(resource_type: str) -> dict[str, dict[str, Any]]:
    """Return the properties of all translated resources of a type, by logical id."""
    return {
        logical_id: resource.get("Properties", {})
        for logical_id, resource in translated()["Resources"].items()
        if resource["Type"] == resource_type
    }


def properties(logical_id: str) -> dict[str, Any]:
    """Return the properties of one translated resource; raise KeyError."""
    return dict(translated()["Resources"][logical_id]["Properties"])


def target(reference: dict[str, Any]) -> str:
    """Return the logical id that a Ref or Fn::GetAtt names; raise ValueError for anything else."""
    match reference:
        case {"Ref": str(logical_id)} | {"Fn::GetAtt": [str(logical_id), *_]}:
            return logical_id
        case {"Fn::GetAtt": str(path)}:
            return path.partition(".")[0]
    raise ValueError(f"not a reference: {reference}")


def listed(value: Any) -> list[Any]:
    """Return the list that a policy means by a list or by a single value."""
    return value if isinstance(value, list) else [value]


def statements(role: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of a role's policies, wherever they stand."""
    for policy in properties(role).get("Policies", []):
        yield from policy["PolicyDocument"]["Statement"]
    for policy in resources("AWS::IAM::Policy").values():
        if role in map(target, policy["Roles"]):
            yield from policy["PolicyDocument"]["Statement"]
    for attached in properties(role).get("ManagedPolicyArns", []):
        yield from properties(target(attached))["PolicyDocument"]["Statement"]
