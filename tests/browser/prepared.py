"""What the browser tests look at: a demo workspace, and copies of the shipped notebooks that open it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sitoolkit.shipped import shipped
from sitoolkit.workspace import Workspace


def demo_workspace(folder: Path) -> Workspace:
    """The workspace that `sitoolkit demo` leaves, with proposals to decide on."""
    from sitoolkit.demo import run_demo
    from sitoolkit.loops.maintenance import propose_maintenance

    ws = Workspace(folder)
    run_demo(ws)
    propose_maintenance(ws, min_failures=3, min_sessions=2)
    return ws


def prepare(name: str, root: Path, workspace: Path, **parameters: Any) -> str:
    """Copy a shipped notebook below the server's root with other values in its parameters cell; gives its file name."""
    source = shipped("notebooks")
    shutil.copytree(source / "pictures", root / "pictures", dirs_exist_ok=True)
    notebook = json.loads((source / f"{name}.ipynb").read_text(encoding="utf-8"))
    given = {"workspace": str(workspace), **parameters}
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()):
            lines = "".join(cell["source"]).splitlines()
            cell["source"] = "\n".join(_with_value(line, given) for line in lines)
    (root / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return f"{name}.ipynb"


def _with_value(line: str, given: dict[str, Any]) -> str:
    name = line.partition(":")[0]
    if name not in given:
        return line
    return f"{line.partition('=')[0]}= {given[name]!r}  #{line.partition('#')[2]}"
