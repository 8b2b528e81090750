from tests.http.conftest import api, log, tmp_path, unmeasured

__all__ = ["api", "log", "tmp_path", "unmeasured"]
