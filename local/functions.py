"""The template's functions, called in this process instead of in sandboxes of their own."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import traceback
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.errors import CannotStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from samcli.lib.providers.provider import Function
    from samcli.lib.utils.stream_writer import StreamWriter

    from queuelog import Clock

REGION = "us-east-1"
ACCOUNT = "123456789012"

# A sandbox serves one request at a time and Powertools counts on it: it keeps the current event on a class.
_one_at_a_time = threading.Lock()


class FunctionFailedError(Exception):
    """A function raised; the traceback has been printed."""


class Context:
    """What Lambda tells a function about one invocation."""

    def __init__(self, function: Function, clock: Clock | None, seconds: float | None = None) -> None:
        """Take a function, and the seconds that it may take where these are fewer than its time-out."""
        name = str(function.name)
        self.aws_request_id = str(uuid.uuid4())
        self.client_context = None
        self.function_name = name
        self.function_version = "$LATEST"
        self.identity = None
        self.invoked_function_arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
        self.log_group_name = f"/aws/lambda/{name}"
        self.log_stream_name = "local"
        self.memory_limit_in_mb = str(function.memory or 128)
        timeout = function.timeout or 3
        self._end = time.monotonic() + (timeout if seconds is None else min(timeout, seconds))
        if clock is not None:
            self.clock = clock

    def get_remaining_time_in_millis(self) -> int:
        """Return how long Lambda would let the function go on; here nothing stops it."""
        return max(0, int((self._end - time.monotonic()) * 1000))


class Functions:
    """The functions of one template, ready to be called; what the emulator takes for its Lambda runner."""

    def __init__(
        self, functions: Sequence[Function], local: Mapping[str, str | None], clock: Clock | None = None
    ) -> None:
        """Import the handlers under the template's variables, with the local values in their place (None: without)."""
        self._functions = {str(function.name): function for function in functions}
        variables: dict[str, str | None] = {**_merged_variables(functions), **local}
        self._variables = {name: value for name, value in variables.items() if value is not None}
        self._clock = clock
        with _one_at_a_time, self._environment():
            self._handlers, self._modules = _load(functions)

    @staticmethod
    def is_debugging() -> bool:
        """Return False: the emulator then takes requests in threads."""
        return False

    def invoke(self, function_identifier: str, event: str, stdout: StreamWriter, **_: object) -> None:
        """Write a function's JSON answer to a JSON event; raise FunctionFailedError."""
        stdout.write_str(self.call(function_identifier, event))

    def call(self, name: str, event: str, *, seconds: float | None = None) -> str:
        """Return a function's JSON answer to a JSON event; raise FunctionFailedError.

        seconds: what the function is told that it may take, if that is less than its time-out.
        """
        function, handler = self._functions[name], self._handlers[name]
        with _one_at_a_time, self._environment():
            try:
                answer = handler(json.loads(event), Context(function, self._clock, seconds))
                return json.dumps(answer, ensure_ascii=False)
            except (Exception, SystemExit) as error:
                traceback.print_exc()
                raise FunctionFailedError(name) from error

    def close(self) -> None:
        """Close the database that the routes keep open between requests."""
        web = self._modules.get("web.app")
        if web is not None:
            with _one_at_a_time, self._environment():
                web.store().close()

    @contextmanager
    def _environment(self) -> Iterator[None]:
        before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _merged_variables(functions: Sequence[Function]) -> dict[str, str]:
    """Return the variables of all functions, which share one process here and so can't differ in any."""
    merged: dict[str, str] = {}
    for function in functions:
        for name, value in ((function.environment or {}).get("Variables") or {}).items():
            if merged.setdefault(name, str(value)) != str(value):
                raise CannotStartError(
                    f"template.yaml gives {name} two values, which functions in one process can't have."
                )
    return merged


def _load(
    functions: Sequence[Function],
) -> tuple[dict[str, Callable[[Any, Context], Any]], dict[str, ModuleType]]:
    """Import every handler afresh, for what a module keeps (a database, a registry) belongs to one local API.

    Return the handlers by function and the modules by name.
    """
    code = {Path(str(function.codeuri)).resolve() for function in functions}
    layers = {Path(layer.codeuri).resolve() / "python" for function in functions for layer in function.layers}
    sys.path[:0] = sorted({str(each) for each in code | layers}.difference(sys.path))
    others = _take_modules(code)
    try:
        handlers = {str(each.name): _handler(str(each.handler)) for each in functions}
    finally:
        modules = _take_modules(code)
        sys.modules.update(others)
    return handlers, modules


def _handler(path: str) -> Callable[[Any, Context], Any]:
    module, _, name = path.rpartition(".")
    handler: Callable[[Any, Context], Any] = getattr(importlib.import_module(module), name)
    return handler


def _take_modules(directories: set[Path]) -> dict[str, ModuleType]:
    """Take the modules that lie in these directories out of the imported ones, and return them."""
    # As texts: a Path for each of the emulator's two thousand modules takes longer than all the handlers.
    inside = tuple(f"{each}{os.sep}" for each in directories)
    found = {
        name: module
        for name, module in sys.modules.items()
        if (getattr(module, "__file__", None) or "").startswith(inside)
    }
    for name in found:
        del sys.modules[name]
    return found
