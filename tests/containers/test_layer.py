"""What `sam build` puts into the layers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

ARTIFACT = ROOT / ".aws-sam/build/QueuelogLayer"
PYTHON = ARTIFACT / "python"
SOURCE = ROOT / "layers/queuelog/python/queuelog"
#: What Lambda takes of a function and its layers, unzipped.
LIMIT = 250 * 1024 * 1024
TASKS = ROOT / ".aws-sam/build/TasksLayer/python"
#: What a package of the tasks' layer is called where it isn't as it is imported.
IMPORTED = {"fonttools": "fontTools", "fpdf2": "fpdf"}


def files(folder: Path, pattern: str = "*") -> set[Path]:
    """Return the files below a folder, without what is compiled of them."""
    return {path.relative_to(folder) for path in folder.rglob(pattern) if path.is_file() and path.suffix != ".pyc"}


def test_the_layer_holds_the_package_and_what_is_pinned_for_it_and_nothing_else(report: list[str]) -> None:
    pinned = set(re.findall(r"^([a-z-]+)==", (ROOT / "layers/queuelog/requirements.txt").read_text(), re.MULTILINE))
    assert len(pinned) == 7
    there = {path.name.removesuffix(".py") for path in PYTHON.iterdir()} - {"__pycache__"}
    assert there == {name.replace("-", "_") for name in pinned} | {"queuelog"}
    assert {path.name for path in ARTIFACT.iterdir()} == {"python"}
    size = sum(path.stat().st_size for path in ARTIFACT.rglob("*") if path.is_file())
    compiled = sum(path.stat().st_size for path in ARTIFACT.rglob("*.pyc"))
    report.append(f"The layer has {size / 1e6:.1f} MB unzipped, {compiled / 1e6:.1f} MB of them compiled modules.")
    assert size < LIMIT


def test_the_layer_of_the_tasks_holds_the_client_and_what_is_pinned_and_fits_beside_the_other(
    report: list[str],
) -> None:
    requirements = (ROOT / "layers/tasks/requirements.txt").read_text()
    pinned = {
        IMPORTED.get(each, each).replace("-", "_")
        for each in re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE)
    }
    assert {path.name for path in TASKS.iterdir()} == pinned | {"queuelog_client"}
    assert not (TASKS / "queuelog_client").is_symlink()
    client = ROOT / "client/queuelog_client"
    assert files(TASKS / "queuelog_client") == files(client)
    assert all(
        (TASKS / "queuelog_client" / each).read_bytes() == (client / each).read_bytes() for each in files(client)
    )
    sizes = [sum(path.stat().st_size for path in each.rglob("*") if path.is_file()) for each in (TASKS, ARTIFACT)]
    report.append(f"The layer of the tasks has {sizes[0] / 1e6:.1f} MB unzipped.")
    assert sum(sizes) < LIMIT


@pytest.mark.parametrize("pattern", ["boto3", "botocore", "tests", "*.dist-info", "bin", "conftest.py", "test_*.py"])
def test_what_lambda_has_itself_or_nobody_runs_is_left_out(pattern: str) -> None:
    # A module of this name belongs to the public part of its package.
    public = {Path("annotated_types/test_cases.py")}
    assert {path.relative_to(PYTHON) for path in PYTHON.rglob(pattern)} - public == set()


def test_pydantic_s_core_is_there_for_both_architectures() -> None:
    compiled = {path.name for path in PYTHON.rglob("*.so*")}
    assert compiled == {f"_pydantic_core.cpython-313-{machine}-linux-gnu.so" for machine in ("aarch64", "x86_64")}


def test_the_package_in_the_layer_is_the_one_that_is_tested() -> None:
    built = PYTHON / "queuelog"
    assert files(built) == files(SOURCE)
    assert {path for path in files(SOURCE) if (built / path).read_bytes() != (SOURCE / path).read_bytes()} == set()
    assert len(files(built, "*.sql")) > 30


def test_every_module_is_compiled_where_there_is_a_python_of_lambda_s_version() -> None:
    modules = files(PYTHON, "*.py")
    compiled = {
        path.relative_to(PYTHON).parent.parent / f"{path.name.partition('.')[0]}.py" for path in PYTHON.rglob("*.pyc")
    }
    pythons = filter(None, (sys.executable, shutil.which("python3.13")))
    script = "import sys; sys.exit(sys.version_info[:2] != (3, 13))"
    can_compile = any(subprocess.run([python, "-c", script], check=False).returncode == 0 for python in pythons)
    assert compiled == (modules if can_compile else set())
