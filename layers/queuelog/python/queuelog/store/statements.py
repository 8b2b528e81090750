from __future__ import annotations

from importlib.resources import files
from string import Template


def load() -> dict[str, str]:
    """Return the text of every statement in `sql/`, by its file's name.

    A statement may hold another one as `$name`, so that what several need stands in one place.
    """
    folder = files("queuelog.store") / "sql"
    statements = {
        each.name.removesuffix(".sql"): each.read_text("utf-8").strip().rstrip(";") for each in folder.iterdir()
    }
    while any("$" in text for text in statements.values()):
        statements = {name: Template(text).substitute(statements) for name, text in statements.items()}
    return statements
