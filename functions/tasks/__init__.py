"""What the stack's worker does: a module for each type of job.

A module has `tasks`, a queuelog_client.Tasks with the handlers of its types, and, if it can't work without some
variables, their names as NEEDS: where one of them is empty, its types are left to other workers. Modules whose names
begin with an underscore are helpers. What a module imports besides boto3 goes into layers/tasks/requirements.txt.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

from queuelog_client import Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping


class Found(NamedTuple):
    """The tasks that can work here; and for the types of the others which variables they miss."""

    tasks: Tasks
    missing: Mapping[str, list[str]]


def find(environment: Mapping[str, str]) -> Found:
    """Import every module of this package and return what it can do in an environment."""
    found = Tasks()
    missing: dict[str, list[str]] = {}
    for name in sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_")):
        module = import_module(f"{__name__}.{name}")
        lacks = [variable for variable in getattr(module, "NEEDS", ()) if not environment.get(variable)]
        if lacks:
            missing |= dict.fromkeys(module.tasks, lacks)
        else:
            found.include(module.tasks)
    return Found(found, missing)
