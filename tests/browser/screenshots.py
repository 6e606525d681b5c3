"""`make screenshots`: makes every picture of the docs from a demo workspace, in a real JupyterLab. Look at them before you commit."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from sitoolkit.shipped import shipped
from sitoolkit.views.picture import loop_svg, write_pictures
from sitoolkit.workspace import Workspace
from tests.browser.lab import browser, lab, watched_page

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"


def make(workspace: Path | None = None) -> None:
    """Make all pictures; a demo workspace is made when none is given."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    write_pictures(ROOT / "notebooks" / "pictures")
    (PICTURES / "loop.svg").write_text(loop_svg(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if workspace is None:
            from sitoolkit.demo import run_demo

            workspace = root / "demo-workspace"
            run_demo(Workspace(workspace))
        shutil.copytree(shipped("notebooks"), root / "notebooks")
        with browser() as running:
            _report(running, workspace)
            with lab(root / "notebooks", workspace) as jupyter:
                for name in (
                    "00_quickstart",
                    "02_pattern_distillation",
                    "03_reflection_triage",
                    "05_proposal_review",
                    "06_health",
                ):
                    _notebook(running, jupyter, name)


def _report(running: object, workspace: Path) -> None:
    from sitoolkit.views.report import write_report

    page_file = write_report(Workspace(workspace))
    for dark in (False, True):
        watched = watched_page(running, width=1120, height=1180, dark=dark)
        watched.page.goto(page_file.as_uri())
        watched.page.screenshot(path=PICTURES / f"report{'-dark' if dark else ''}.png")
        watched.page.context.close()


def _notebook(running: object, jupyter: object, name: str) -> None:
    watched = watched_page(running, width=1180, height=1000)
    jupyter.open(watched, f"{name}.ipynb")  # type: ignore[attr-defined]
    jupyter.tidy(watched)  # type: ignore[attr-defined]
    jupyter.run_all(watched)  # type: ignore[attr-defined]
    page = watched.page
    page.wait_for_timeout(1500)
    target = ".sit-panel" if name.startswith("05") else ".vega-embed"
    page.locator(target).first.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    picture = "panel.png" if name.startswith("05") else f"notebook-{name[:2]}.png"
    page.locator(".jp-NotebookPanel").screenshot(path=PICTURES / picture)
    page.context.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
