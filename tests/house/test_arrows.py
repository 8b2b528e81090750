"""Imports run one way: functions/* → functions/web → queuelog → the standard library."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

import queuelog
from queuelog import QueuelogError, errors
from tests.house.drawing import bases_drawn
from tests.support import ROOT, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORE = ROOT / "layers/queuelog/python"
FUNCTIONS = ROOT / "functions"

#: Each level may import the levels before it, and nothing of its own or a later one.
LEVELS = [
    ["errors", "clock", "lease", "policy"],
    ["job"],
    ["principal", "redaction"],
    ["page", "registry"],
    ["store"],
    ["explanation"],
    ["queue"],
    ["__init__"],
    ["__main__"],
]
STORE_LEVELS = [
    ["failures", "file_lock", "file_system", "items", "migrations", "statements", "unlocked"],
    ["local_file", "takeover"],
    ["network_file"],
    ["database"],
    ["examination", "snapshots", "store"],
    ["__init__"],
]


class Import(NamedTuple):
    """An import statement's target, as a dotted name, and whether it is one for the type checker alone."""

    target: str
    typing_only: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


def modules(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their dotted names; a package's own file ends in `.__init__`."""
    files = [path for path in folder.rglob("*.py") if "__pycache__" not in path.parts]
    return {".".join(path.relative_to(folder).with_suffix("").parts): path for path in sorted(files)}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> set[Import]:
    tree = parse(path)
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for each in node.body
        for inner in ast.walk(each)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {Import(alias.name, node in guarded) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports say in full where from"
            # `from package import module` points at the module.
            found |= {Import(f"{node.module}.{alias.name}", node in guarded) for alias in node.names}
    return found


def top_level(folder: Path) -> set[str]:
    return {each.stem for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()}


HANDLERS = sorted(path.stem for path in FUNCTIONS.glob("*.py"))
ROUTES = [name for name in HANDLERS if name not in {"authorize", "back_up", "sweep", "work"}]
OUTSIDE_THE_CORE = {"aws_lambda_powertools", "botocore", "pydantic", "pydantic_core"}


def arrows(package: str, levels: list[list[str]]) -> Iterator[tuple[str, str]]:
    """Yield each import within a package as the names of its two ends; imports for the type checker count as well."""
    rooms = {room for level in levels for room in level}
    for name, path in modules(CORE).items():
        if not name.startswith(f"{package}."):
            continue
        room = name.removeprefix(f"{package}.").partition(".")[0]
        assert room in rooms, f"{name} has no level"
        for each in imports(path):
            if f"{each.target}.".startswith(f"{package}."):
                target = each.target.removeprefix(package).strip(".").partition(".")[0]
                yield room, target if target in rooms else "__init__"


@pytest.mark.parametrize(("package", "levels"), [("queuelog", LEVELS), ("queuelog.store", STORE_LEVELS)])
def test_inside_the_core_imports_run_one_way(package: str, levels: list[list[str]]) -> None:
    rank = {room: number for number, level in enumerate(levels) for room in level}
    wrong = {
        (room, target) for room, target in arrows(package, levels) if room != target and rank[target] >= rank[room]
    }
    assert wrong == set()


@pytest.mark.parametrize(("package", "levels"), [("queuelog", LEVELS), ("queuelog.store", STORE_LEVELS)])
def test_every_level_is_there(package: str, levels: list[list[str]]) -> None:
    folder = CORE.joinpath(*package.split("."))
    rooms = top_level(folder) | {"__init__"}
    assert rooms == {room for level in levels for room in level}


def test_the_core_imports_the_standard_library_alone() -> None:
    allowed = sys.stdlib_module_names | {"queuelog"}
    used = {
        (name, each.target) for name, path in modules(CORE).items() for each in imports(path) if each.top not in allowed
    }
    assert used == set()


def test_nothing_below_the_handlers_reads_the_environment() -> None:
    readers = {
        name
        for name, path in modules(CORE).items()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    }
    assert readers == set()


def test_nothing_but_the_clock_asks_the_machine_for_the_time() -> None:
    askers = {
        name
        for name, path in modules(CORE).items()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr in {"today", "utcnow", "time"} or ast.unparse(node.func) in {"datetime.now", "date.today"})
    }
    assert askers == {"queuelog.clock"}


def test_sqlite_is_for_the_store_alone() -> None:
    users = {
        name
        for folder in (CORE, FUNCTIONS, ROOT / "local")
        for name, path in modules(folder).items()
        # A row's type may be named elsewhere.
        if any(each.top == "sqlite3" and not each.typing_only for each in imports(path))
    }
    assert {name for name in users if not name.startswith("queuelog.store.")} == set()


SQL = re.compile(
    r"\b(SELECT\b.+\bFROM|INSERT\s+INTO|UPDATE\b.+\bSET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|PRAGMA\s+\w+|BEGIN\s+\w+)\b",
    re.DOTALL,
)


def texts(path: Path) -> Iterator[str]:
    """Yield every text in a module but its docstrings."""
    tree = parse(path)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


def test_sql_is_for_the_store_alone() -> None:
    speakers = {
        name
        for folder in (CORE, FUNCTIONS, ROOT / "local")
        for name, path in modules(folder).items()
        if not name.startswith("queuelog.store.") and any(SQL.search(text) for text in texts(path))
    }
    assert speakers == set()


def test_every_statement_stands_in_a_file_of_its_own_and_is_used() -> None:
    files = {path.stem for path in (CORE / "queuelog/store/sql").iterdir()}
    named = set(texts(CORE / "queuelog/store/store.py"))
    included = set(
        re.findall(r"\$(\w+)", "".join(path.read_text() for path in (CORE / "queuelog/store/sql").iterdir()))
    )
    assert files - named - included == set()


def test_handlers_import_no_other_handler() -> None:
    sideways = {
        (name, each.target) for name in HANDLERS for each in imports(FUNCTIONS / f"{name}.py") if each.top in HANDLERS
    }
    assert sideways == set()


def test_what_handlers_share_imports_no_handler() -> None:
    back = {
        (name, each.target)
        for name, path in modules(FUNCTIONS / "web").items()
        for each in imports(path)
        if each.top in HANDLERS
    }
    assert back == set()


def test_functions_import_the_two_rooms_and_what_the_layer_carries() -> None:
    allowed = sys.stdlib_module_names | {"queuelog", "web"} | OUTSIDE_THE_CORE
    used = {
        (name, each.target)
        for name, path in modules(FUNCTIONS).items()
        for each in imports(path)
        if each.top not in allowed
    }
    used = {(name, target) for name, target in used if not is_of_the_worker(name)}
    # Lambda's runtime has it.
    assert used == {("back_up", "boto3")}


def is_of_the_worker(module: str) -> bool:
    return module == "work" or module.startswith("tasks.")


def test_the_worker_and_its_tasks_import_what_their_own_layer_carries_and_neither_of_the_two_rooms() -> None:
    # A caller like any other has neither the file nor the routes' code.
    used = {
        each.top
        for name, path in modules(FUNCTIONS).items()
        if is_of_the_worker(name)
        for each in imports(path)
        if each.top not in sys.stdlib_module_names
    }
    # Lambda's runtime has the first two.
    own = {"boto3", "botocore"} | {"fontpkg_noto_sans", "fpdf", "queuelog_client", "tasks"}
    assert used == own | {"aws_lambda_powertools"}


def test_what_handlers_share_has_no_cycle() -> None:
    arrows = {
        name: {each.target.split(".")[1] for each in imports(path) if each.top == "web" and "." in each.target}
        for name, path in modules(FUNCTIONS / "web").items()
    }
    done: set[str] = set()
    while free := {name for name, targets in arrows.items() if name not in done and targets <= done}:
        done |= free
    assert set(arrows) - done == set()


@pytest.mark.parametrize("folder", [FUNCTIONS, CORE], ids=["functions", "layer"])
def test_no_module_hides_one_of_python_s(folder: Path) -> None:
    assert top_level(folder) & sys.stdlib_module_names == set()


IMPORT_ALL = """
import importlib, os, sys

os.environ.update(
    POWERTOOLS_SERVICE_NAME="queuelog", POWERTOOLS_METRICS_NAMESPACE="Queuelog", QUEUELOG_JOB_TYPES="email",
    QUEUELOG_DATABASE=sys.argv[1],
)
for name in sys.argv[2:]:
    before = set(sys.modules)
    importlib.import_module(name)
    for module in sorted(set(sys.modules) - before):
        print(name, module)
"""

HEAVY = {"aws_xray_sdk", "boto3", "fpdf", "queuelog_client", "samcli"}


def test_no_function_of_a_route_imports_what_would_slow_its_cold_start(tmp_path: Path) -> None:
    database = tmp_path / "queue.db"
    lines = run_python(IMPORT_ALL, str(database), *ROUTES).splitlines()
    loaded = {module.partition(".")[0] for _, module in map(str.split, lines)}
    assert {"queuelog", "web", "aws_lambda_powertools", *ROUTES} <= loaded
    assert [line for line in lines if line.split()[1].partition(".")[0] in HEAVY] == []
    assert not database.exists(), "nothing is opened at import"


def test_the_public_door_is_sorted_and_complete() -> None:
    assert queuelog.__all__ == sorted(set(queuelog.__all__))
    brought_in = {each.target.rpartition(".")[2] for each in imports(CORE / "queuelog/__init__.py")}
    assert set(queuelog.__all__) == brought_in
    for name in queuelog.__all__:
        assert getattr(queuelog, name).__name__ == name
    assert {each.__name__ for each in error_classes()} <= set(queuelog.__all__)


def error_classes() -> list[type[QueuelogError]]:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, QueuelogError)]
    return [each for each in found if each.__module__ == "queuelog.errors"]


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = bases_drawn(errors.__doc__)
    classes = {each.__name__: each for each in error_classes()}
    built = {name: None if cls is QueuelogError else cls.__base__ for name, cls in classes.items()}
    assert drawn == {name: base and base.__name__ for name, base in built.items()}


def test_every_error_is_defined_in_that_tree() -> None:
    elsewhere = {
        (name, node.name)
        for name, path in modules(CORE).items()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef)
        and name != "queuelog.errors"
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    }
    assert elsewhere == set()
