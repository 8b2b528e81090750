"""What `make run` keeps in DATA_DIR: the queue, the registry of keys, three keys to begin with, and the log."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import CannotStartError
from queuelog import QueuelogError, Role, Store
from queuelog.registry import Registry
from queuelog_client.cli.registries import NotChangedError, create

if TYPE_CHECKING:
    from typing import TextIO


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The files of one local queue, which outlive the process that serves them."""

    path: Path

    @property
    def database(self) -> Path:
        """The queue."""
        return self.path / "queue.db"

    @property
    def principals(self) -> Path:
        """The registry: who may come in, with the hash of each key."""
        return self.path / "principals.json"

    @property
    def keys(self) -> Path:
        """One key for each role, by the role's name."""
        return self.path / "keys.json"

    @property
    def log(self) -> Path:
        """What the functions print: their logs and metrics, one JSON object a line."""
        return self.path / "functions.log"

    def open_log(self) -> TextIO:
        """Return the log, to be appended to line by line; raise CannotStartError."""
        self._require_writable()
        try:
            return self.log.open("a", buffering=1, encoding="utf-8")
        except OSError as error:
            raise CannotStartError(f"{self.log} can't be written ({error.strerror}).") from error

    def prepare(self) -> bool:
        """Make what is missing, keep what is there, and return whether keys were made; raise CannotStartError."""
        self._require_writable()
        is_new = not self.keys.exists()
        if is_new:
            self._make_keys()
        elif not self.principals.exists():
            raise CannotStartError(
                f"{self.principals} is missing, so that the keys in {self.keys.name} open nothing. "
                f"Put it back, or move {self.keys.name} away: the next start then makes new keys."
            )
        self._require_registry()
        self._require_database()
        return is_new

    def read_keys(self) -> dict[str, str]:
        """Return the key of each role, by its name; raise CannotStartError."""
        try:
            keys = json.loads(self.keys.read_text(encoding="utf-8"))
            return {role.value: str(keys[role]) for role in Role}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CannotStartError(
                f"{self.keys} should hold a JSON object with a key each for {', '.join(Role)}. "
                "Move it away: the next start then makes new keys."
            ) from error

    def _require_writable(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Only a write tells: root passes every check of permissions, even on a read-only file system.
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise CannotStartError(
                f"The data directory {self.path} can't be made or written ({error.strerror}). "
                "Set DATA_DIR to one that can."
            ) from error

    def _make_keys(self) -> None:
        """Add a principal for each role to the registry, which may hold others, and write down their keys."""
        try:
            keys = {role.value: create(self.principals, role.value, [role]) for role in Role}
            # Readable by its owner alone, and never half there.
            with tempfile.NamedTemporaryFile("w", dir=self.path, prefix=self.keys.name, delete=False) as file:
                json.dump(keys, file, indent=2)
                file.write("\n")
            Path(file.name).replace(self.keys)
        except OSError as error:
            raise CannotStartError(f"{self.keys} can't be written ({error.strerror}).") from error
        except NotChangedError as error:
            raise CannotStartError(str(error)) from error

    def _require_registry(self) -> None:
        try:
            Registry.parse(self.principals.read_text(encoding="utf-8"))
        except (OSError, ValueError, QueuelogError) as error:
            raise CannotStartError(f"{self.principals} can't be used: {error}") from error

    def _require_database(self) -> None:
        try:
            with closing(Store(self.database)) as store:
                store.get(1)
        except QueuelogError as error:
            raise CannotStartError(f"{self.database} can't be used: {error}") from error
