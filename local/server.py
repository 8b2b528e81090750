from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from local.errors import CannotStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flask import Flask

# This machine alone: keys cross the wire in clear text.
HOST = "127.0.0.1"
# As long as the template lets a function run; a client that stalls in mid-request is given no more.
_LAST_ANSWERS_SECONDS = 15


def listen(port: int) -> socket.socket:
    """Return a socket that takes connections on a port of this machine (0: on a free one); raise CannotStartError."""
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStartError(
                f"Port {port} is taken. Stop the program that has it, or set PORT to another."
            ) from error
        raise CannotStartError(f"Port {port} can't be used ({error.strerror}). Set PORT to another.") from error


class Server(ThreadedWSGIServer):
    """Serves an application in threads; stop lets every answer that was begun come to its end."""

    def __init__(self, listener: socket.socket, app: Flask, report: Callable[[str], None]) -> None:
        super().__init__(HOST, listener.getsockname()[1], app, handler=_RequestHandler, fd=listener.fileno())
        self.report = report
        self._answering = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="local-api")

    def start(self) -> None:
        """Serve in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, and return once those that were taken are answered."""
        self.shutdown()
        self._thread.join()
        with self._changed:
            self._stopping = True
            self._changed.wait_for(lambda: self._answering == 0, timeout=_LAST_ANSWERS_SECONDS)

    @contextmanager
    def answering(self) -> Iterator[bool]:
        """Count one request as being answered; False means that it comes too late."""
        with self._changed:
            in_time = not self._stopping
            self._answering += in_time
        try:
            yield in_time
        finally:
            with self._changed:
                self._answering -= in_time
                self._changed.notify_all()


class _RequestHandler(WSGIRequestHandler):
    # Browsers open connections that they never use; each would keep its thread.
    timeout = 60
    _began: float | None = None

    def run_wsgi(self) -> None:
        self._began = time.perf_counter()
        with cast("Server", self.server).answering() as in_time:
            if in_time:
                super().run_wsgi()
            else:
                self.close_connection = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
        if self._began is None:
            return  # What couldn't be read as a request has been reported as an error.
        milliseconds = (time.perf_counter() - self._began) * 1000
        # The path as it came, but nothing in it that a terminal would obey.
        path = self.path.encode("unicode_escape").decode("ascii")
        cast("Server", self.server).report(f"{self.command} {path} {int(code)} {milliseconds:.0f} ms")

    def log(self, type: str, message: str, *args: object) -> None:
        cast("Server", self.server).report(f"{type}: {message % args}".encode("unicode_escape").decode("ascii"))
