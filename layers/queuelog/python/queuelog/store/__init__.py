"""The jobs in one SQLite file, behind verbs that speak of jobs alone: no SQL and no file outside this package."""

from queuelog.store.items import Stats, Swept
from queuelog.store.store import Store

__all__ = ["Stats", "Store", "Swept"]
