"""`python -m benchmarks [NAME …]`: run some of the benchmarks, or all.

Every module beside this one is a benchmark, unless its name starts with an underscore: its run() prints a table.
"""

import argparse
import pkgutil
import time
from importlib import import_module

import benchmarks

NAMES = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure speed, as ratios within one run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    names = parser.parse_args().names or NAMES
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"there is no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in names:
        started = time.monotonic()
        import_module(f"benchmarks.{name}").run()
        print(f"({name}: {time.monotonic() - started:.0f} s)", flush=True)


main()
