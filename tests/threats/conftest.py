from tests.http.conftest import api, log

__all__ = ["api", "log"]
