"""Which queue a command talks to, and as whom.

The options say it, or QUEUELOG_URL and QUEUELOG_API_KEY, or a profile:

    [production]
    url = "https://….execute-api.eu-central-1.amazonaws.com/v1"
    api_key = "ql_…"                # or: auth = "iam"

A key is no option: the arguments of a process can be read by everyone on its machine.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import click

from queuelog_client.client import QueueClient


def connect(*, profile: str | None = None, url: str | None = None, iam: bool = False) -> QueueClient:
    """Return the client that options, environment and profiles describe; raise click.UsageError."""
    named = profile or (None if url or os.environ.get("QUEUELOG_URL") else os.environ.get("QUEUELOG_PROFILE"))
    found = _profile(named) if named else {"api_key": os.environ.get("QUEUELOG_API_KEY")}
    address = url or found.get("url") or (None if named else os.environ.get("QUEUELOG_URL"))
    if not address:
        raise click.UsageError("Say which queue: set QUEUELOG_URL, or name a profile with --profile.")
    signed = iam or found.get("auth") == "iam"
    key = found.get("api_key")
    if not signed and not key:
        raise click.UsageError("Say who you are: set QUEUELOG_API_KEY, or sign with --iam.")
    try:
        return QueueClient(address, auth="iam") if signed else QueueClient(address, api_key=key)
    except (ValueError, ImportError) as error:
        raise click.UsageError(str(error)) from error


def profiles_file() -> Path:
    """Return where the profiles are kept, below XDG_CONFIG_HOME."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "queuelog" / "profiles.toml"


def _profile(name: str) -> dict[str, Any]:
    path = profiles_file()
    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise click.UsageError(f"There is no profile {name}: {path} is missing.") from None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} can't be read: {error}") from error
    found = profiles.get(name)
    if not isinstance(found, dict):
        raise click.UsageError(f"There is no profile {name} in {path}; there are: {', '.join(profiles) or 'none'}.")
    return found
