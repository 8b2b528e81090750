from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.nfs.lab import Lab, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES: pytest.StashKey[list[str]] = pytest.StashKey()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The one virtual machine of the session."""
    lacking = missing()
    if lacking is not None:
        pytest.fail(lacking, pytrace=False)
    with Lab() as lab:
        yield lab


@pytest.fixture
def show(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print a text at the end of the run, in Markdown, whether the test passes or not."""
    return pytestconfig.stash.setdefault(TABLES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for text in config.stash.get(TABLES, []):
        terminalreporter.write_line(f"\n{text}")
