from tests.http.conftest import api, log, tmp_path

__all__ = ["api", "log", "tmp_path"]
