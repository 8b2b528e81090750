"""What make hands over in the environment, and which signals end what it has started."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import CannotStartError

if TYPE_CHECKING:
    from collections.abc import Mapping

STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def data_dir_of(environ: Mapping[str, str]) -> Path:
    """Return the directory of the local queue."""
    return Path(environ.get("DATA_DIR") or ".local")


def port_of(environ: Mapping[str, str]) -> int:
    """Return the port of the local API; raise CannotStartError."""
    text = environ.get("PORT") or "3000"
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise CannotStartError(f"PORT must be a number from 0 (any free port) to 65535, and is {text!r}.")
    return int(text)
