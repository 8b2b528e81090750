"""The way that containers have to the local API."""

from __future__ import annotations

import socket
import threading

import pytest

from local.relay import Relay


def test_a_connection_leads_on_and_back_until_either_side_ends_it() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay("127.0.0.1", listener.getsockname()[1]) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as near,
    ):
        far, _ = listener.accept()
        with far:
            near.sendall(b"asked" * 50_000)
            near.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: far.recv(65_536), b"")) == b"asked" * 50_000
            far.sendall(b"answered")
        assert b"".join(iter(lambda: near.recv(65_536), b"")) == b"answered"


def test_connections_go_side_by_side_and_one_that_leads_nowhere_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Relay("127.0.0.1", port) as relay:
            nears = [socket.create_connection(("127.0.0.1", relay.port)) for _ in range(3)]
            fars = [listener.accept()[0] for _ in nears]
            listener.close()
            for each in (*fars, *nears):
                each.close()
            with socket.create_connection(("127.0.0.1", relay.port)) as lost:
                assert lost.recv(1) == b""
    assert "relay" not in {thread.name for thread in threading.enumerate()}


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        Relay("192.0.2.200", 1)
