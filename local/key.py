"""Make an API key, for the local API or, with STACK, for a deployed one: `make key NAME=billing ROLES=producer`."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from queuelog import InvalidRegistry, JobPriority, SystemClock
from queuelog.registry import Registry, new_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mypy_boto3_secretsmanager import SecretsManagerClient

    from queuelog import Clock

SETTINGS = ("NAME", "ROLES", "TYPES", "MAX_PRIORITY", "EXPIRES", "STACK", "DATA_DIR")
UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
MAX_SECRET_BYTES = 65_536
ATTEMPTS = 5
#: The label of a version that isn't current yet. It goes to the newest one, so that Secrets Manager drops the others.
STAGED = "QUEUELOG_STAGED"


class BadSettingError(Exception):
    """A setting on make's command line is missing or wrong; the message is a sentence."""


class NotWrittenError(Exception):
    """The key was not added to any registry; the message is a sentence."""


def main(environ: Mapping[str, str], *, clock: Clock | None = None, session: boto3.Session | None = None) -> int:
    """Make the key that the environment describes and print it once; return 0, 2 for a bad setting, 1 for a failure."""
    try:
        settings = _settings(environ)
        key, entry = _new_entry(settings, (clock or SystemClock()).now())
        if "STACK" in settings:
            place = f"the secret of the stack {settings['STACK']}"
            registry = add_to_stack(settings["STACK"], entry, session)
        else:
            path = Path(settings.get("DATA_DIR", ".local")) / "principals.json"
            place = str(path)
            registry = add_to_file(path, entry)
    except BadSettingError as error:
        print(error, file=sys.stderr)
        return 2
    except NotWrittenError as error:
        print(error, file=sys.stderr)
        return 1
    _print_made(key, entry, place, others=len(registry.key_ids(entry["name"])) - 1)
    return 0


def create(
    path: Path,
    name: str,
    roles: Iterable[str],
    *,
    types: Iterable[str] | None = None,
    max_priority: JobPriority | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Add a principal to the registry in this file and return its key; raise InvalidRegistry or NotWrittenError."""
    key, entry = new_entry(name, roles, types, max_priority, expires_at)
    add_to_file(path, entry)
    return key


def add_to_file(path: Path, entry: dict[str, Any]) -> Registry:
    """Add the entry to the registry in this file, made if missing, and return it; raise NotWrittenError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(path.name + ".lock")):
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            registry = Registry.parse(text).with_entry(entry)
            _replace(path, registry.dump())
    except OSError as error:
        raise NotWrittenError(f"No key was made: {path} could not be written ({error.strerror}).") from error
    except (InvalidRegistry, UnicodeDecodeError) as error:
        raise NotWrittenError(f"No key was made: {path}: {error}") from error
    return registry


def add_to_stack(stack: str, entry: dict[str, Any], session: boto3.Session | None = None) -> Registry:
    """Add the entry to the registry in this stack's secret and return it; raise NotWrittenError."""
    try:
        session = session or boto3.Session()
        resource = session.client("cloudformation").describe_stack_resource(
            StackName=stack, LogicalResourceId="RegistrySecret"
        )
        secret = resource["StackResourceDetail"]["PhysicalResourceId"]
        return _add_to_secret(session.client("secretsmanager"), secret, entry)
    except (BotoCoreError, ClientError, InvalidRegistry) as error:
        raise NotWrittenError(f"No key was made for the stack {stack}: {error}") from error


def _add_to_secret(secrets_manager: SecretsManagerClient, secret: str, entry: dict[str, Any]) -> Registry:
    # Secrets Manager has no conditional write, but moving a label names the version to take it from, and fails if
    # someone else has moved it. So the new version is staged first; whoever loses reads again and adds to what won.
    # (The first version of a secret becomes current by itself, and to move the label there is refused as well.)
    refused = secrets_manager.exceptions
    for _ in range(ATTEMPTS):
        version, registry = _current(secrets_manager, secret)
        if entry["key_id"] in registry:
            return registry
        registry = registry.with_entry(entry)
        text = registry.dump()
        if len(text.encode()) > MAX_SECRET_BYTES:
            raise NotWrittenError(
                f"No key was made: the registry would pass the {MAX_SECRET_BYTES} bytes that a secret holds. "
                "Remove entries whose keys are no longer used, and repeat the command."
            )
        staged = secrets_manager.put_secret_value(SecretId=secret, SecretString=text, VersionStages=[STAGED])
        take_from = {"RemoveFromVersionId": version} if version else {}
        try:
            secrets_manager.update_secret_version_stage(
                SecretId=secret, VersionStage="AWSCURRENT", MoveToVersionId=staged["VersionId"], **take_from
            )
        except (refused.InvalidParameterException, refused.InvalidRequestException):
            continue
        return registry
    raise NotWrittenError("No key was made: others kept changing the registry meanwhile. Repeat the command.")


def _current(secrets_manager: SecretsManagerClient, secret: str) -> tuple[str | None, Registry]:
    try:
        current = secrets_manager.get_secret_value(SecretId=secret, VersionStage="AWSCURRENT")
    except secrets_manager.exceptions.ResourceNotFoundException:
        return None, Registry.parse("")
    text = current.get("SecretString") or current.get("SecretBinary", b"").decode(errors="replace")
    return current["VersionId"], Registry.parse(text)


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    settings = {name: environ[name].strip() for name in SETTINGS if name in environ}
    for name, value in settings.items():
        # TYPES=$UNSET would otherwise open every type, and EXPIRES=$UNSET would make a key that lasts for ever.
        if not value:
            raise BadSettingError(f"{name} is empty: give it a value or leave it out.")
    for name in ("NAME", "ROLES"):
        if name not in settings:
            raise BadSettingError(f"{name} is missing, as in: make key NAME=billing ROLES=producer,worker")
    return settings


def _new_entry(settings: Mapping[str, str], now: datetime) -> tuple[str, dict[str, Any]]:
    try:
        return new_entry(
            name=settings["NAME"],
            roles=_list(settings["ROLES"]),
            types=_list(settings["TYPES"]) if "TYPES" in settings else None,
            max_priority=_priority(settings["MAX_PRIORITY"]) if "MAX_PRIORITY" in settings else None,
            expires_at=_moment(settings["EXPIRES"], now) if "EXPIRES" in settings else None,
        )
    except InvalidRegistry as error:
        raise BadSettingError(str(error)) from error


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _priority(text: str) -> JobPriority:
    try:
        return JobPriority.from_label(text)
    except ValueError as error:
        raise BadSettingError(f"MAX_PRIORITY is wrong: {error}.") from error


def _moment(text: str, now: datetime) -> datetime:
    moment = _later(text, now) or _point_in_time(text)
    if moment is None:
        raise BadSettingError(
            "EXPIRES must be a number of days, hours or minutes from now, such as 90d, 12h or 30m, "
            "or a time with its zone, such as 2026-12-31T00:00:00Z."
        )
    if moment <= now:
        raise BadSettingError("EXPIRES lies in the past: the key would never work.")
    return moment


def _later(text: str, now: datetime) -> datetime | None:
    match = re.fullmatch(r"([0-9]{1,5})([dhm])", text)
    return now + int(match[1]) * UNITS[match[2]] if match else None


def _point_in_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The registry itself is replaced and not written, so that a lock on it would be one on a file that is no more.
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield


def _replace(path: Path, text: str) -> None:
    # A reader sees the old registry or the new one, never a part, and nobody but its owner sees either.
    with tempfile.TemporaryDirectory(dir=path.parent) as workshop:
        new = Path(workshop) / path.name
        new.touch(mode=0o600)
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def _print_made(key: str, entry: dict[str, Any], place: str, others: int) -> None:
    print(f"The key, shown this once and kept nowhere:\n\n    {key}\n")
    print(f"Its entry, written to {place}:\n\n{json.dumps(entry, indent=2)}")
    if others:
        print(f"\n{entry['name']} already had {others} key(s): all are the same principal, and see the same jobs.")


if __name__ == "__main__":
    sys.exit(main(os.environ))
