from __future__ import annotations

import os


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait, for processes that they have started or for a lease."""
    return (os.cpu_count() or 1) + 1
