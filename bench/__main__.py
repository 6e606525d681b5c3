"""`python -m bench [NAME…]`: runs the benches one after another, each in its own process; all of them without a name."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """The benches: every module here that can be run."""
    return sorted(
        path.stem
        for path in HERE.glob("*.py")
        if not path.stem.startswith("_") and '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    )


def main(wanted: list[str]) -> int:
    """Run the benches; the exit code says whether all of them ended well."""
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no bench is called {unknown[0]!r}; known: {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted or names():
        print(f"\n== bench.{name}", flush=True)
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, check=False)
        print(f"({time.monotonic() - started:.0f} s)", flush=True)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
