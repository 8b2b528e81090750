"""`make sam-api` and `make sam-invoke`: the functions in Lambda's own runtime, by SAM CLI and Docker.

SAM CLI knows nothing of file systems. This gives every function DATA_DIR where the template mounts one, as the user
whom the queue in it belongs to, and the authoriser the registry in it in the secret's place. What differs from an
account:
- A function runs on this machine's processor, whatever the parameter Architecture says, and nothing limits its share.
- It may reach every network; VPC, roles and access point count for nothing.
- The gateway's own answers are SAM CLI's: other bodies than the template's, and a denied key is a 403.
- No function comes with the time of day: `make sam-invoke` calls the sweep. A backup needs QUEUELOG_BACKUP_BUCKET, and
  AWS_ENDPOINT_URL where something stands in for S3.
- The worker calls the API that listens on PORT, with the key of the data directory's worker. Its tasks get the
  variables of theirs that are set here, such as QUEUELOG_EMAIL_FROM, and AWS credentials if there are any.
Where Docker brings a kernel of its own (macOS, Windows), nothing outside it may open the same DATA_DIR meanwhile: the
locks of the two sides don't meet.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import ExitStack
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from samcli.cli.main import cli
from samcli.local.docker.exceptions import ContainerEnforcementException, ContainerNotReachableException
from samcli.local.docker.lambda_container import LambdaContainer
from samcli.local.docker.utils import get_validated_container_client
from samcli.local.lambdafn import runtime

from local.api import TEMPLATE, read
from local.data import DataDirectory
from local.errors import CannotStartError
from local.relay import Relay
from local.settings import STOP_SIGNALS, data_dir_of, port_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: By the first one knows a function that calls the API.
CALLER, BUCKET = "QUEUELOG_URL", "QUEUELOG_DOCUMENT_BUCKET"
NO_ENGINE = (
    "No Docker engine answers: install one (on Debian: apt-get install docker.io), start it (dockerd), "
    "and see that you may use its socket."
)


def main(command: str, environ: Mapping[str, str]) -> None:
    """Run `sam local start-api` or `sam local invoke`, and exit as it does."""
    with ExitStack() as ending:
        try:
            options = _options(command, environ)
            engine = engine_info()
            data = DataDirectory(data_dir_of(environ).resolve())
            data.prepare()
            caller = _caller(environ, engine, data, ending) if command == "invoke" else {}
        except CannotStartError as error:
            sys.exit(str(error))
        sandboxes: list[LambdaContainer] = []
        endpoint = environ.get("AWS_ENDPOINT_URL")
        runtime.LambdaContainer = _sandbox_class(data, _mount_path(), _user(data, engine), endpoint, caller, sandboxes)
        os.environ["SAM_CLI_TELEMETRY"] = "0"
        overrides = ["--parameter-overrides", f"Architecture={architecture_of(engine)}"]
        try:
            cli(["local", command, *options, *overrides], prog_name="sam")
        finally:
            # So does SAM CLI, unless a second signal interrupts it: make passes on what all of its group have got.
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            for sandbox in sandboxes:
                sandbox.delete()


def engine_info() -> dict[str, Any]:
    """Return what the engine that SAM CLI would take says of itself; raise CannotStartError when none answers."""
    try:
        return dict(get_validated_container_client().info())
    except (ContainerEnforcementException, ContainerNotReachableException) as error:
        raise CannotStartError(NO_ENGINE) from error


def architecture_of(engine: Mapping[str, Any]) -> str:
    """Return Lambda's name of the processor that an engine's containers run on."""
    return "arm64" if engine["Architecture"] in {"aarch64", "arm64"} else "x86_64"


def _options(command: str, environ: Mapping[str, str]) -> list[str]:
    image = ["--invoke-image", environ["IMAGE"], "--skip-pull-image"] if environ.get("IMAGE") else []
    if command == "start-api":
        return [*image, "--port", str(port_of(environ))]
    if not (environ.get("FUNCTION") and environ.get("EVENT")):
        raise CannotStartError(
            "Say which function to call, and with which event, as in: "
            "make sam-invoke FUNCTION=ClaimJobFunction EVENT=events/claim_job.json"
        )
    return [*image, environ["FUNCTION"], "--event", environ["EVENT"]]


def _caller(
    environ: Mapping[str, str], engine: Mapping[str, Any], data: DataDirectory, ending: ExitStack
) -> dict[str, str]:
    """Return what a function is told that calls the API, and nothing for another; raise CannotStartError."""
    function = read(TEMPLATE).resources.get(environ["FUNCTION"], {"Properties": {}})
    if CALLER not in function["Properties"].get("Environment", {}).get("Variables", {}):
        return {}
    return {
        CALLER: _way_to_the_api(port_of(environ), engine, ending),
        "QUEUELOG_API_KEY": data.read_keys()["worker"],
        # The template's would be one that nobody has made.
        BUCKET: environ.get(BUCKET, ""),
    }


def _way_to_the_api(port: int, engine: Mapping[str, Any], ending: ExitStack) -> str:
    """Return the URL at which containers find what listens on a port of this machine; raise CannotStartError."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError as error:
        raise CannotStartError(
            f"Nothing listens on port {port}, and this function calls the API: start it with `make run` or "
            "`make sam-api`, with the same PORT and DATA_DIR."
        ) from error
    if "Desktop" in str(engine.get("OperatingSystem")):
        return f"http://host.docker.internal:{port}"
    address = gateway_address()
    try:
        relay = ending.enter_context(Relay(address, port))
    except OSError as error:
        raise CannotStartError(f"Containers have no way to this machine ({error.strerror}).") from error
    return f"http://{address}:{relay.port}"


def gateway_address() -> str:
    """Return this machine's address on the network of containers, which nobody else can reach."""
    (network,) = get_validated_container_client().networks.get("bridge").attrs["IPAM"]["Config"]
    return str(network.get("Gateway") or ip_network(network["Subnet"])[1])


def _mount_path() -> str:
    systems = [each["Properties"].get("FileSystemConfigs", []) for each in read(TEMPLATE).resources.values()]
    (path,) = {str(system["LocalMountPath"]) for each in systems for system in each}
    return path


def _user(data: DataDirectory, engine: Mapping[str, Any]) -> str | None:
    """Return the user that functions run as, as the access point has one: their files are then whose the others are."""
    if "name=rootless" in (engine["SecurityOptions"] or []):
        # The root of its containers is the user that it runs as.
        return None
    owner = data.database.stat()
    return f"{owner.st_uid}:{owner.st_gid}"


def _sandbox_class(
    data: DataDirectory,
    mount_path: str,
    user: str | None,
    endpoint: str | None,
    caller: Mapping[str, str],
    created: list[LambdaContainer],
) -> type[LambdaContainer]:
    class Sandbox(LambdaContainer):  # type: ignore[misc]  # SAM CLI has no types
        """A function's container, with what SAM CLI leaves out."""

        def create(self, context: Any) -> Any:
            self._additional_volumes[str(data.path)] = {"bind": mount_path, "mode": "rw"}
            self._container_opts = {"user": user} if user else {}
            # SAM CLI passes on no variable that the template doesn't name.
            if self._env_vars.pop("QUEUELOG_REGISTRY_SECRET", None):
                self._env_vars["QUEUELOG_REGISTRY_FILE"] = f"{mount_path}/{data.principals.name}"
            if endpoint:
                self._env_vars["AWS_ENDPOINT_URL"] = endpoint
            self._env_vars |= caller
            created.append(self)
            return super().create(context)

        @staticmethod
        def _write_container_output(output_itr: Iterable[tuple[bytes, bytes]], **streams: Any) -> None:
            super(Sandbox, Sandbox)._write_container_output(_by_line(output_itr), **streams)

    return Sandbox


def _by_line(output: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[tuple[bytes | None, bytes | None]]:
    # An answer waits for the line that ends the invocation's log. SAM CLI looks for it where a piece of the log begins,
    # and when it comes with lines before it, the answer waits for a second.
    for out, err in output:
        yield from ((line, None) for line in (out or b"").splitlines(keepends=True))
        yield from ((None, line) for line in (err or b"").splitlines(keepends=True))


if __name__ == "__main__":
    main(sys.argv[1], os.environ)
