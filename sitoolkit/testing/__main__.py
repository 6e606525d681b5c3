"""`python -m sitoolkit.testing FOLDER`: writes the demo transcripts and their truth; the same bytes each time."""

from __future__ import annotations

import sys
from pathlib import Path

from sitoolkit.testing.files import write_demo

if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("data")
    for written in write_demo(target):
        sys.stdout.write(f"{written}\n")
