"""The image that functions run in: AWS's own, or a stand-in where its registry can't be reached."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from samcli.lib.utils.stream_writer import StreamWriter
from samcli.local.docker.lambda_image import LambdaImage, Runtime
from samcli.local.docker.manager import ContainerManager, DockerImagePullFailedException

from tests.house.template import source
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
#: All that the stand-in is made of.
PARTS = [Path(__file__), HERE / "stand-in.sh", HERE / "stand-in.txt", ROOT / "constraints.txt"]
STAND_IN = "queuelog-stand-in"
SETTINGS = ["WORKDIR /var/task", "ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime"]


class NoImageError(Exception):
    """There is no base image; the message says what to do."""


class BaseImage(NamedTuple):
    """What functions run in, in words, and what IMAGE has to be for it (None: SAM CLI takes AWS's)."""

    description: str
    tag: str | None


def base_image(architecture: str, report: Callable[[str], None]) -> BaseImage:
    """Return the image to use, pulled or made if need be, and say when that takes long; raise NoImageError."""
    manager = ContainerManager()
    aws = _name_of_aws(architecture)
    if _is_pulled(manager, aws):
        return BaseImage(f"AWS's {aws}", None)
    if manager.has_image(aws):
        return BaseImage(f"AWS's {aws} as this machine has it, for its registry can't be reached", aws)
    tag = _fingerprint()
    stand_in = f"{STAND_IN}:{tag}"
    if not manager.has_image(stand_in):
        report(f"{aws} can't be pulled. A stand-in for it is made; this takes a minute or two, and is done once.")
        _make(manager, tag)
    return BaseImage(f"{stand_in}, Debian's Python 3.13, for {aws} can't be pulled", stand_in)


def _name_of_aws(architecture: str) -> str:
    runtime = source()["Globals"]["Function"]["Runtime"]
    return f"{LambdaImage._INVOKE_REPO_PREFIX}/{Runtime.get_image_name_tag(runtime, architecture)}"


def _is_pulled(manager: ContainerManager, name: str) -> bool:
    try:
        manager.pull_image(name, stream=StreamWriter(io.BytesIO()))
    except DockerImagePullFailedException:
        return False
    # A pull that breaks off later says so to nobody.
    return bool(manager.has_image(name))


def _fingerprint() -> str:
    return hashlib.sha256(b"".join(part.read_bytes() for part in PARTS)).hexdigest()[:12]


def _make(manager: ContainerManager, tag: str) -> None:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise NoImageError(
            "AWS's base image can't be pulled, and to make the stand-in takes root and debootstrap "
            "(on Debian: apt-get install debootstrap)."
        )
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        made = subprocess.run(
            [HERE / "stand-in.sh"],
            env=os.environ | {"ARCHIVE": archive.name, "PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if made.returncode:
            raise NoImageError(f"The stand-in for AWS's base image could not be made:\n{made.stdout}")
        manager.container_client.api.import_image_from_file(archive.name, STAND_IN, tag, SETTINGS)
