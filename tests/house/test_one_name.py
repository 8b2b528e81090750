"""One operation has one name: in the template, as a module, an event, a row of the README, and in OpenAPI."""

from __future__ import annotations

import ast
import json
import re
import tomllib

import pytest

from tests.house.template import ROOT, source

README = (ROOT / "README.md").read_text()
OPENAPI = json.loads((ROOT / "docs/api/openapi.json").read_text())
VARIABLE = re.compile(r"(?:QUEUELOG|POWERTOOLS)_[A-Z_]+")


def functions() -> dict[str, dict[str, object]]:
    """The template's functions by the module that each handles with."""
    resources = source()["Resources"]
    return {
        each["Properties"]["Handler"].removesuffix(".handler"): {"id": name, **each["Properties"]}
        for name, each in resources.items()
        if each["Type"] == "AWS::Serverless::Function"
    }


def routes(module: str) -> set[tuple[str, str]]:
    """The (method, path) pairs of a function's API events, without the second door."""
    events = functions()[module].get("Events", {})
    found = {
        (each["Properties"]["Method"].upper(), each["Properties"]["Path"])
        for each in events.values()  # type: ignore[attr-defined]
        if each["Type"] == "Api"
    }
    return {(method, path) for method, path in found if not path.startswith("/iam")}


MODULES = sorted(functions())
ROUTED = [module for module in MODULES if routes(module)]


def test_every_module_in_functions_is_a_function_of_the_template_and_the_other_way_round() -> None:
    assert {path.stem for path in (ROOT / "functions").glob("*.py")} == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_function_is_named_after_its_module(module: str) -> None:
    assert functions()[module]["id"] == "".join(part.title() for part in module.split("_")) + "Function"


@pytest.mark.parametrize("module", MODULES)
def test_a_function_has_an_event_to_invoke_it_with(module: str) -> None:
    event = json.loads((ROOT / f"events/{module}.json").read_text())
    for method, path in routes(module):
        assert (event["httpMethod"], event["resource"]) == (method, path)


def test_every_event_belongs_to_a_function() -> None:
    assert {path.stem for path in (ROOT / "events").glob("*.json")} == set(MODULES)


@pytest.mark.parametrize("module", ROUTED)
def test_a_route_is_a_row_of_the_readme(module: str) -> None:
    for method, path in routes(module):
        assert re.search(rf"^\| `{method} {re.escape(path)}` \| `{module}` \|", README, re.MULTILINE)


@pytest.mark.parametrize("module", ROUTED)
def test_a_route_is_an_operation_of_openapi(module: str) -> None:
    for method, path in routes(module):
        assert OPENAPI["paths"][path][method.lower()]["operationId"] == module


def test_openapi_has_no_other_operations() -> None:
    operations = [each for path in OPENAPI["paths"].values() for each in path.values() if "operationId" in each]
    assert {operation["operationId"] for operation in operations} == set(ROUTED)


@pytest.mark.parametrize("module", ROUTED)
def test_a_route_function_is_the_handler_that_its_module_defines(module: str) -> None:
    tree = ast.parse((ROOT / f"functions/{module}.py").read_text())
    assert module in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_problem_is_a_row_of_the_readme() -> None:
    slugs = set(re.findall(r"urn:queuelog:problem:([a-z-]+)", (ROOT / "template.yaml").read_text()))
    slugs |= set(
        re.findall(r'HTTPStatus\.[A-Z_]+, ?\n? *"([a-z-]+)"', (ROOT / "functions/web/problems.py").read_text())
    )
    assert slugs
    assert [slug for slug in sorted(slugs) if f"`{slug}`" not in README] == []


def test_every_parameter_is_in_the_readme() -> None:
    assert [name for name in source()["Parameters"] if f"`{name}`" not in README] == []


def test_every_vulnerability_has_its_row_and_its_test() -> None:
    for number in range(1, 11):
        (row,) = re.findall(
            rf"^\| V-{number:02} \|.*\]\((tests/threats/test_v{number:02}_\w+\.py)\) \|$", README, re.MULTILINE
        )
        assert (ROOT / row).exists()


def test_every_link_of_the_readme_leads_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_variable_that_the_code_reads_is_set_by_the_template() -> None:
    code = "".join(path.read_text() for path in (ROOT / "functions").rglob("*.py"))
    template = (ROOT / "template.yaml").read_text()
    # These stand for the secret and for a signature on a developer's machine; the three of roles are put together.
    local = {"QUEUELOG_REGISTRY_FILE", "QUEUELOG_API_KEY"}
    read = {name for name in VARIABLE.findall(code) if not name.endswith("_")} - local
    assert sorted(name for name in read if name not in template) == []


def test_every_target_of_make_that_the_docs_speak_of_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    docs = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    spoken_of = {name for path in docs for name in re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), re.MULTILINE)}
    assert {"run", "sam-api", "test-containers"} <= spoken_of
    assert spoken_of - targets == set()


def test_make_test_runs_what_pytest_would_run_by_itself() -> None:
    makefile = (ROOT / "Makefile").read_text()
    own, other = (set(each.split()) for each in re.findall(r"^O[A-Z]+_TESTS := (.*)$", makefile, re.MULTILINE))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert not own & other
    assert own | other == set(settings["testpaths"])
