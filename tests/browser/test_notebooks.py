"""Every shipped notebook in JupyterLab as a person sees it: runs, draws, no error, no request that leaves the machine; and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sitoolkit.shipped import shipped
from sitoolkit.views.report import write_report
from sitoolkit.workspace import Workspace
from tests.browser.conftest import watch
from tests.browser.prepared import demo_workspace, prepare

NOTEBOOKS = sorted(file.stem for file in shipped("notebooks").glob("*.ipynb"))
CHARTS = {
    "00_quickstart": 2, "01_capture_replay": 2, "02_pattern_distillation": 2, "03_reflection_triage": 4, "04_memory_decay": 3,
    "05_proposal_review": 2, "06_health": 5,
}  # fmt: skip
ERRORS = '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]'


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return demo_workspace(tmp_path_factory.mktemp("browser") / "demo-workspace")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_draws_without_a_network(demo: Workspace, lab: Any, name: str) -> None:
    watched = lab.open(prepare(name, lab.root, demo.path))
    page = watched.page
    lab.run_all(watched)
    for place in range(CHARTS[name]):
        page.locator(".vega-embed :is(canvas, svg)").nth(place).wait_for(state="attached", timeout=30_000)
    errors = page.locator(ERRORS)
    assert errors.count() == 0, errors.first.inner_text()
    assert page.locator(".vega-embed details").count() >= CHARTS[name]
    watched.clean()
    page.context.close()


def test_a_click_on_a_tool_filters_the_days_below(demo: Workspace, lab: Any) -> None:
    watched = lab.open(prepare("00_quickstart", lab.root, demo.path))
    page = watched.page
    lab.run_all(watched)
    chart = page.locator(".vega-embed :is(canvas, svg.marks)").first
    chart.wait_for(state="visible")
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    before = chart.screenshot()
    chart.click(position={"x": 230, "y": 75})
    page.wait_for_timeout(1000)
    assert chart.screenshot() != before
    watched.clean()
    page.context.close()


# ---------------------------------------------------------------- the report


@pytest.fixture(scope="module")
def report(demo: Workspace) -> Path:
    return write_report(demo)


@pytest.fixture
def open_report(report: Path, browser: Any) -> Any:
    def open_(dark: bool = False, width: int = 1120) -> Any:
        page = browser.new_page(
            viewport={"width": width, "height": 1000}, color_scheme="dark" if dark else "light"
        )
        watched = watch(page, "file://")
        page.goto(report.as_uri())
        return watched

    return open_


def test_the_report_asks_for_nothing_and_says_no_error(open_report: Any, report: Path) -> None:
    assert report.stat().st_size < 1_000_000
    watched = open_report()
    watched.clean()
    assert watched.page.get_by_role("heading", level=1).count() == 1
    watched.page.close()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_barrier_in_the_report(open_report: Any, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_report(dark).page
    answer = Axe().run(page).response
    assert len(answer["passes"]) > 10
    found = answer["violations"]
    told = [
        (each["id"], each["nodes"][0]["html"][:160], each["nodes"][0]["failureSummary"][:200])
        for each in found
    ]
    page.close()
    assert told == []


def test_the_report_can_be_walked_with_the_keyboard(open_report: Any) -> None:
    page = open_report().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the report"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName"))
    assert "SUMMARY" in seen
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    page.close()


def test_the_report_fits_a_phone(open_report: Any) -> None:
    page = open_report(width=390).page
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
