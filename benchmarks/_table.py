from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    print(f"\n{title}")
    for row in (headings, ["-" * width for width in widths], *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([row[0].ljust(len(first)), *others]))
    if note:
        print(note)


def in_ms(seconds: float) -> str:
    """Return a time in milliseconds, as people read it."""
    return f"{seconds * 1000:.3f} ms"


def against(ratio: float, goal: float, *, higher_is_better: bool = False) -> str:
    """Return a ratio beside its goal, and whether it is met."""
    met = ratio >= goal if higher_is_better else ratio <= goal
    return f"{ratio:.2f} ({'≥' if higher_is_better else '≤'} {goal}: {'met' if met else 'missed'})"
