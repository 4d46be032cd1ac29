"""Runs benchmarks one after the other, keeps what they print in bench/results, and writes docs/benchmarks.md.

`python -m bench` runs all of them, `python -m bench relay crypto` these two.
"""

import subprocess
import sys

from bench.page import NAMES, write_page
from bench.results import write_output


def run(name: str) -> bool:
    """Run one benchmark in a process of its own, so that none finds the memory of the one before."""
    print(f"== {name}", flush=True)
    with subprocess.Popen([sys.executable, "-m", f"bench.{name}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode == 0:
        write_output(name, lines)
    return process.returncode == 0


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = [name for name in names or NAMES if not run(name)]
    write_page()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
