"""A way for containers to what listens on this machine alone."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Relay(ThreadingTCPServer):
    """Passes connections to a port of one of this machine's addresses on to a port of 127.0.0.1, as a context manager.

    `port` is a free one of the address.
    """

    daemon_threads = True

    def __init__(self, address: str, to_port: int) -> None:
        """Listen; raise OSError."""
        super().__init__((address, 0), _Connection)
        self.port = int(self.server_address[1])
        self.target = ("127.0.0.1", to_port)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Connection(BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        # What breaks here the two ends see as a connection that breaks.
        with suppress(OSError), socket.create_connection(self.server.target) as onward:
            back = threading.Thread(target=_copy, args=(onward, self.request), daemon=True)
            back.start()
            _copy(self.request, onward)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
