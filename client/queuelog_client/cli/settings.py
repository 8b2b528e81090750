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
from queuelog_client.retries import Retries

#: Somebody waits in front of the terminal.
RETRIES = Retries(seconds=10)
_FIELDS = {"url", "api_key", "auth"}


class WrongSetting(click.ClickException):
    """The arguments may be right, but not what the environment or a profile says, or doesn't."""

    exit_code = 2


def connect(*, profile: str | None = None, url: str | None = None, iam: bool = False) -> QueueClient:
    """Return the client that options, environment and profiles describe; raise WrongSetting."""
    named = profile or (None if url or os.environ.get("QUEUELOG_URL") else os.environ.get("QUEUELOG_PROFILE"))
    found = _profile(named) if named else {"api_key": os.environ.get("QUEUELOG_API_KEY")}
    address = url or found.get("url") or (None if named else os.environ.get("QUEUELOG_URL"))
    if not address:
        raise WrongSetting("Say which queue: set QUEUELOG_URL, or name a profile with --profile.")
    signed = iam or found.get("auth") == "iam"
    key = found.get("api_key")
    if not signed and not key:
        raise WrongSetting("Say who you are: set QUEUELOG_API_KEY, or sign with --iam.")
    try:
        return QueueClient(address, api_key=None if signed else key, auth="iam" if signed else None, retries=RETRIES)
    except (ValueError, ImportError) as error:
        # What comes after it tells programs what to do.
        said = str(error).partition(";")[0]
        raise WrongSetting(f"{said[:1].upper()}{said[1:]}.") from error


def profiles_file() -> Path:
    """Return where the profiles are kept, below XDG_CONFIG_HOME."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "queuelog" / "profiles.toml"


def profile_names() -> list[str]:
    """Return the names of the profiles; none where there is no file that can be read."""
    try:
        return list(_profiles(profiles_file()))
    except (OSError, ValueError):
        return []


def _profile(name: str) -> dict[str, Any]:
    path = profiles_file()
    try:
        profiles = _profiles(path)
    except FileNotFoundError:
        raise WrongSetting(f"There is no profile {name}: {path} is missing.") from None
    except (OSError, ValueError) as error:
        raise WrongSetting(f"{path} can't be read: {error}") from error
    found = profiles.get(name)
    if not isinstance(found, dict):
        raise WrongSetting(f"There is no profile {name} in {path}; there are: {', '.join(profiles) or 'none'}.")
    wrong = [field for field, value in found.items() if field not in _FIELDS or not isinstance(value, str)]
    if wrong or found.get("auth", "iam") != "iam":
        raise WrongSetting(
            f"The profile {name} in {path} is wrong at {', '.join(wrong) or 'auth'}: "
            'it has url = "…", and api_key = "…" or auth = "iam".'
        )
    return found


def _profiles(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
