#!/usr/bin/env bash
# Writes the file system of a stand-in for AWS's base image of python3.13 to the tar file ARCHIVE: Debian's Python 3.13 with Lambda's
# runtime client and boto3 from PyPI. PYTHON is any that has pip. Needs root and debootstrap.
set -euo pipefail
cd "$(dirname "$0")"

# Not in /tmp, which may be mounted so that nothing in it can be a device or a program.
root=$(mktemp -d /var/tmp/stand-in.XXXXXX)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=ca-certificates,python3 trixie "$root"

"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile --only-binary=:all: \
  --implementation cp --python-version 3.13 --platform "manylinux2014_$(uname -m)" --platform "manylinux_2_28_$(uname -m)" \
  --target "$root/var/runtime" --requirement stand-in.txt --constraint ../../constraints.txt
# As in AWS's: what every start imports has been compiled.
chroot "$root" python3 -m compileall -q /var/runtime

# What the emulator in SAM CLI starts. A function's own code comes before its layer, and the layer before the runtime's packages.
cat >"$root/var/runtime/bootstrap" <<'BOOTSTRAP'
#!/bin/sh
export PYTHONPATH=/var/task:/opt/python:/var/runtime
exec /usr/bin/python3 -m awslambdaric "$_HANDLER"
BOOTSTRAP
chmod 755 "$root/var/runtime/bootstrap"
mkdir -p "$root/var/task"

tar -C "$root" --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --exclude='./var/cache/*' --exclude='./var/lib/apt/*' \
  -cf "$ARCHIVE" .
