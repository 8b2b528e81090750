"""`python -m benchmarks [NAME …]`: run some of the benchmarks, or all.

Every module beside this one is a benchmark, unless its name starts with an underscore: its run() prints a table.
"""

import argparse
import pkgutil
import signal
import sys
import time
from importlib import import_module

import benchmarks
from benchmarks._contest import CannotRun

NAMES = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure speed, as ratios within one run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    names = parser.parse_args().names or NAMES
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"there is no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    # As Ctrl-C does, it lets servers be stopped and files be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    status = 0
    for name in names:
        started = time.monotonic()
        try:
            import_module(f"benchmarks.{name}").run()
        except CannotRun as missing:
            print(f"\n{name}: {missing}", file=sys.stderr)
            status = 1
        print(f"({name}: {time.monotonic() - started:.0f} s)", flush=True)
    return status


sys.exit(main())
