"""`make screenshots`: every picture of the docs from a demo workspace, in a real JupyterLab. Look at them before you commit them.

Not a test: run by name, with the fixtures of this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sitoolkit.views.picture import loop_svg, write_pictures
from sitoolkit.views.report import write_report
from sitoolkit.workspace import Workspace
from tests.browser.prepared import demo_workspace, prepare

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return demo_workspace(tmp_path_factory.mktemp("pictures") / "demo-workspace")


def test_loop() -> None:
    write_pictures(ROOT / "notebooks" / "pictures")
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "loop.svg").write_text(loop_svg(), encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True])
def test_report(demo: Workspace, browser: Any, dark: bool) -> None:
    page = browser.new_page(
        viewport={"width": 1120, "height": 1080}, color_scheme="dark" if dark else "light"
    )
    page.goto(write_report(demo).as_uri())
    page.screenshot(path=PICTURES / f"report{'-dark' if dark else ''}.png")
    page.close()


@pytest.mark.parametrize(
    "name", ["00_quickstart", "02_pattern_distillation", "03_reflection_triage", "06_health"]
)
def test_notebook(demo: Workspace, lab: Any, name: str) -> None:
    watched = lab.open(prepare(name, lab.root, demo.path), width=1180, height=1000)
    _picture(lab, watched, ".vega-embed", f"notebook-{name[:2]}.png")


def test_panel(demo: Workspace, lab: Any) -> None:
    watched = lab.open(
        prepare("05_proposal_review", lab.root, demo.path, reviewer="Ada"), width=1280, height=1000
    )
    _picture(lab, watched, ".widget-vbox", "panel.png")


def _picture(lab: Any, watched: Any, target: str, name: str) -> None:
    page = watched.page
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    lab.run_all(watched)
    page.locator(target).first.wait_for(timeout=90_000)
    page.wait_for_timeout(1500)  # charts are drawn after the cell says that it is done
    page.locator(target).first.evaluate("node => node.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(500)
    page.locator(".jp-NotebookPanel").screenshot(path=PICTURES / name)
    page.context.close()
