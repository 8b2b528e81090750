"""What the tree at the top of an errors module says, for a comparison with the classes."""

from __future__ import annotations

import re


def bases_drawn(text: str | None) -> dict[str, str | None]:
    """Return each class that a tree of text draws, with the one above it; None for the root."""
    drawn: dict[str, str | None] = {}
    above: dict[int, str] = {}
    for line in (text or "").splitlines():
        if match := re.match(r"(?P<branch>(?:│   |    )*(?:├── |└── )?)(?P<name>[A-Z]\w+)(?:\s{2,}\S.*)?$", line):
            depth = len(match["branch"]) // 4
            above[depth] = match["name"]
            drawn[match["name"]] = above[depth - 1] if depth else None
    return drawn
