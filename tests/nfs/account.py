"""What must be true of a file after any of the laboratory's scenarios."""

from __future__ import annotations

from collections import Counter
from typing import Any


def assert_sound(found: dict[str, Any]) -> None:
    """Check that every page, counter and history of a file is as it should be."""
    assert found["integrity"] == ["ok"]
    assert found["miscounted"] == []
    assert found["unaccounted"] == []


def assert_as_told(found: dict[str, Any]) -> Counter[str]:
    """Check a file against its workers' diaries, to the job; return how often each word is in them.

    What was acknowledged is there, once. What was refused as busy is not, and what was in doubt was repeated until it
    was acknowledged: so the file holds what the diaries say and nothing else.
    """
    notes = [note for diary in found["diaries"].values() for note in diary]
    assert [note for note in notes if note[0] == "wrong"] == []
    made = Counter(id for word, *rest in notes if word == "made" for id in rest[1])
    claimed = Counter((id, attempt) for word, *rest in notes if word == "claimed" for id, attempt in rest[1])
    completed = {(id, attempt) for word, *rest in notes if word == "completed" for id, attempt in rest[1]}
    assert set(made.values()) | set(claimed.values()) == {1}
    assert {id for id, _, _, _, made_by, _ in found["jobs"] if made_by is not None} == set(made)
    assert {(id, attempt) for id, _, _, attempt, _, _ in found["jobs"] if attempt} == set(claimed)
    assert {(id, attempt) for id, status, _, attempt, _, _ in found["jobs"] if status == "completed"} == completed
    assert_sound(found)
    return Counter(word for word, *_ in notes)
