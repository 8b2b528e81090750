"""The API on this machine: SAM CLI's API Gateway emulator over the template's functions, called in this process.

Routes, authoriser, variables and the gateway's own answers come from template.yaml. What differs from an account:
- There is no stage in the paths: /jobs, not /v1/jobs.
- Nothing checks signatures: every call under /iam is answered with the functions' own 401, and never with API
  Gateway's 403.
- The authoriser is asked at every request and reads the registry each time: a new or revoked key counts at once.
- Nothing stops a function after its time-out, nothing is throttled, and requests are served one at a time.
- The sweep comes at the start and then every minute. Requests wait for it, so it goes on for a second at the most.
- What only a parameter brings into a stack is not there: a worker is started by hand.
- No backup is made, since there is no bucket. A file on a local disk can be copied by anyone (docs/operations.md).
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider

from local.data import DataDirectory
from local.functions import Functions
from local.gateway import Gateway, GatewayResponses
from local.schedules import Scheduler, schedules_of
from local.server import HOST, Server, listen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from samcli.lib.providers.provider import Api, Function

    from queuelog import Clock

TEMPLATE = Path(__file__).resolve().parent.parent / "template.yaml"


class LocalApi:
    """A running local API, as a context manager.

    The port 0 takes a free one; `report` gets a line for each request. A clock stands in for the machine's in every
    function; with one, schedules wait for run_schedules, since only its owner knows when it is time. Inside, `url` has
    no slash at its end, `keys` holds a key for each role, and `has_new_keys` says whether this start made them.
    """

    def __init__(
        self,
        data_dir: Path | str,
        port: int = 0,
        clock: Clock | None = None,
        report: Callable[[str], None] = lambda _: None,
        template: Path = TEMPLATE,
    ) -> None:
        self.data = DataDirectory(Path(data_dir).resolve())
        self._port = port
        self._clock = clock
        self._report = report
        self._template = template

    def __enter__(self) -> Self:
        """Start; raise CannotStartError."""
        with listen(self._port) as listener:
            self.has_new_keys = self.data.prepare()
            self.keys: Mapping[str, str] = self.data.read_keys()
            port = listener.getsockname()[1]
            self.url = f"http://{HOST}:{port}"
            # The emulator counts the use of authorisers; this keeps the counts at home.
            os.environ["SAM_CLI_TELEMETRY"] = "0"
            template = read(self._template)
            variables = self._variables()
            self._functions = Functions(template.functions, variables, self._clock)
            missing = [name for name, value in variables.items() if value is None]
            schedules = schedules_of(template.functions, missing)
            self._scheduler = Scheduler(self._functions, schedules, self._clock, self._report)
            gateway = Gateway(template.api, self._functions, GatewayResponses(template.responses), HOST, port)
            self._server = Server(listener, gateway.app, self._report)
        self._server.start()
        if self._clock is None:
            self._scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Answer what has been asked, then stop."""
        self._scheduler.stop()
        self._server.stop()
        self._functions.close()

    def run_schedules(self) -> None:
        """Call each function that has a schedule once, at the clock's time; raise FunctionFailedError."""
        self._scheduler.run()

    def _variables(self) -> dict[str, str | None]:
        return {
            "QUEUELOG_BACKUP_BUCKET": None,
            "QUEUELOG_DATABASE": str(self.data.database),
            "QUEUELOG_REGISTRY_FILE": str(self.data.principals),
            "QUEUELOG_REGISTRY_SECRET": None,
        }


class Template(NamedTuple):
    """What SAM CLI makes of a template."""

    #: As they stand in it, by their names.
    resources: Mapping[str, Any]
    #: But for those that only a parameter brings into a stack.
    functions: list[Function]
    #: The routes with their authoriser.
    api: Api
    #: What the gateway answers by itself.
    responses: Mapping[str, Any]


@cache
def read(template: Path) -> Template:
    """Return what SAM CLI makes of a template.

    It is read once: SAM CLI takes longer for that than all the rest of a start, and tests make many.
    """
    with warnings.catch_warnings():
        # SAM CLI calls what its own translator has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        stacks, _ = SamLocalStackProvider.get_stacks(str(template))
        resources = stacks[0].resources
        functions = [
            each for each in SamFunctionProvider(stacks).get_all() if "Condition" not in resources[str(each.name)]
        ]
        api = ApiProvider(stacks).api
    (properties,) = (each["Properties"] for each in resources.values() if each["Type"] == "AWS::Serverless::Api")
    return Template(resources, functions, api, properties.get("GatewayResponses", {}))
