"""Where the queue's keys are registered, and how that is changed while others change it too.

It needs the queue's core, and boto3 for a stack.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from queuelog.errors import InvalidRegistry
from queuelog.registry import Registry, key_id, new_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from queuelog import JobPriority

    #: What is to become of a registry. It is asked again when somebody else was faster, and must return the very same
    #: registry if what it wants is there: the answer to a change that was made may have been lost.
    Change = Callable[[Registry], Registry]

MAX_SECRET_BYTES = 65_536
ATTEMPTS = 5
#: The label of a version that isn't current yet. It goes to the newest one, so that Secrets Manager drops the others.
STAGED = "QUEUELOG_STAGED"


class NotChangedError(Exception):
    """The registry was not read or not changed; the message is a sentence."""


class Place(Protocol):
    """Where a registry is kept."""

    #: For people, as in "written to …".
    name: str

    def read(self) -> Registry:
        """Return the registry, an empty one where there is none yet; raise NotChangedError."""

    def change(self, change: Change) -> Registry:
        """Change the registry and return it, losing nothing that others write meanwhile; raise NotChangedError."""


class RegistryFile:
    """The registry of a local queue, a file."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def read(self) -> Registry:
        """Return the registry; raise NotChangedError."""
        with self._named("{} could not be read"):
            return self._parsed()

    def change(self, change: Change) -> Registry:
        """Change the registry, which is made if missing; raise NotChangedError."""
        with self._named("Nothing was changed: {} could not be written"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self._path.with_name(self._path.name + ".lock")):
                before = self._parsed()
                registry = change(before)
                if registry is not before:
                    _replace(self._path, registry.dump())
        return registry

    def _parsed(self) -> Registry:
        return Registry.parse(self._path.read_text(encoding="utf-8") if self._path.exists() else "")

    @contextmanager
    def _named(self, failure: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NotChangedError(f"{failure.format(self._path)} ({error.strerror}).") from error
        except (InvalidRegistry, UnicodeDecodeError) as error:
            raise NotChangedError(f"{self._path} can't be used. {error}") from error


class RegistrySecret:
    """The registry of a deployed queue, in its stack's secret."""

    def __init__(self, stack: str, client: Callable[..., Any]) -> None:
        """Take the stack's name, and what makes a client of an AWS service."""
        self.name = f"the secret of the stack {stack}"
        self._stack = stack
        self._client = client
        self._found: tuple[Any, str] | None = None
        self._has_begun_to_write = False

    def read(self) -> Registry:
        """Return the registry; raise NotChangedError."""
        with self._named("could not be read"):
            return self._current()[1]

    def change(self, change: Change) -> Registry:
        """Change the registry; raise NotChangedError."""
        with self._named("was not changed"):
            return self._change(change)

    def _change(self, change: Change) -> Registry:
        # Secrets Manager has no conditional write, but moving a label names the version to take it from, and fails if
        # someone else has moved it. So the new version is staged first; whoever loses reads again and changes what won.
        # (The first version of a secret becomes current by itself, and to move the label there is refused as well.)
        secrets_manager, secret = self._secret()
        refused = secrets_manager.exceptions
        for _ in range(ATTEMPTS):
            version, before = self._current()
            registry = change(before)
            if registry is before:
                return registry
            text = registry.dump()
            if len(text.encode()) > MAX_SECRET_BYTES:
                raise NotChangedError(
                    f"Nothing was changed: the registry would pass the {MAX_SECRET_BYTES} bytes that a secret holds. "
                    "Revoke keys that are no longer used, and repeat the command."
                )
            self._has_begun_to_write = True
            staged = secrets_manager.put_secret_value(SecretId=secret, SecretString=text, VersionStages=[STAGED])
            take_from = {"RemoveFromVersionId": version} if version else {}
            try:
                secrets_manager.update_secret_version_stage(
                    SecretId=secret, VersionStage="AWSCURRENT", MoveToVersionId=staged["VersionId"], **take_from
                )
            except (refused.InvalidParameterException, refused.InvalidRequestException):
                continue
            return registry
        raise NotChangedError("Nothing was changed: others kept changing the registry meanwhile. Repeat the command.")

    def _current(self) -> tuple[str | None, Registry]:
        secrets_manager, secret = self._secret()
        try:
            current = secrets_manager.get_secret_value(SecretId=secret, VersionStage="AWSCURRENT")
        except secrets_manager.exceptions.ResourceNotFoundException:
            return None, Registry.parse("")
        text = current.get("SecretString") or current.get("SecretBinary", b"").decode(errors="replace")
        return current["VersionId"], Registry.parse(text)

    def _secret(self) -> tuple[Any, str]:
        if self._found is None:
            secret = resource_of(self._stack, "RegistrySecret", self._client)
            self._found = self._client("secretsmanager"), secret
        return self._found

    @contextmanager
    def _named(self, failure: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            yield
        except (BotoCoreError, ClientError, InvalidRegistry) as error:
            # A refusal is one; when there is no answer, or one of a server at its end, it may have been done.
            is_refusal = isinstance(error, ClientError) and error.response["ResponseMetadata"]["HTTPStatusCode"] < 500
            if self._has_begun_to_write and not is_refusal:
                message = f"It isn't known whether {self.name} was changed: look at it with queuelog keys list. {error}"
            else:
                message = f"The secret of the stack {self._stack} {failure}: {error}"
            raise NotChangedError(message) from error


def resource_of(stack: str, name: str, client: Callable[..., Any]) -> str:
    """Return the physical id of a stack's resource; raise botocore's errors."""
    found = client("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId=name)
    return str(found["StackResourceDetail"]["PhysicalResourceId"])


def create(
    path: Path,
    name: str,
    roles: Iterable[str],
    *,
    types: Iterable[str] | None = None,
    max_priority: JobPriority | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Add a principal to the registry in this file and return its key; raise InvalidRegistry or NotChangedError."""
    key, entry = new_entry(name, roles, types, max_priority, expires_at)
    RegistryFile(path).change(adding(entry))
    return key


def adding(entry: dict[str, Any]) -> Change:
    """Return the change that adds an entry."""
    return lambda registry: registry if entry["key_id"] in registry else registry.with_entry(entry)


def removing(key_ids: Iterable[str]) -> Change:
    """Return the change that removes keys, those that are there."""
    gone = frozenset(key_ids)
    return lambda registry: registry.without(gone) if any(each in registry for each in gone) else registry


def rotating(old: Sequence[str], key: str, expires_at: datetime | None, until: datetime | None) -> Change:
    """Return the change that adds a key like the last of the old ones, which end then, or at once if it is None."""

    def change(registry: Registry) -> Registry:
        if key_id(key) in registry:
            return registry
        # Of what was revoked meanwhile there is no successor: with_successor refuses that.
        added = registry.with_successor(old[-1], key, expires_at)
        return added.without(old) if until is None else added.with_expiry(old, until)

    return change


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
