"""The review panel as a person uses it: JupyterLab in a real browser, by mouse and by keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitoolkit import review
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.records import Category, Status
from sitoolkit.workspace import Workspace
from tests.browser.conftest import write_notebook

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
SETUP = """
import os
os.environ["SITOOLKIT_MODELS_EMBEDDER"] = "hashing"
from sitoolkit.workspace import Workspace
from sitoolkit.views.panel import ReviewPanel
panel = ReviewPanel(Workspace("WS"), reviewer="ana")
panel
"""


@pytest.fixture
def desk(lab, request):
    """A workspace with five guides and two evil proposals, and a notebook that shows the panel."""
    name = request.node.name.replace("[", "_").replace("]", "")
    ws = Workspace(lab.root / name, embedder=HashingEmbedder())
    for number in range(5):
        payload = {
            "intent": f"rule_{number}",
            "agent": "ops",
            "keywords": ["rule"],
            "body": f"Rule {number}: take a backup first.",
        }
        ws.proposals.propose(
            type="usage-guide",
            title=f"Guide number {number}",
            payload=payload,
            evidence=(f"e{number}",),
            proposed_by="triage",
        )
    for kind in ("code-fix", "system-prompt"):
        ws.proposals.propose(
            type=kind, title=f"{EVIL} {kind}", description=EVIL, evidence=(EVIL,), note=EVIL, proposed_by=EVIL, risk="high",
            payload={"tool": EVIL, "name": EVIL, "text": f"{EVIL}\u202e", "suggested_fix": EVIL, "root_cause": EVIL},
        )  # fmt: skip
    write_notebook(lab.root / f"{name}.ipynb", SETUP.replace("WS", str(ws.path)), "cells_stay = 1")
    return ws, f"{name}.ipynb"


def guides(ws):
    return sorted(
        memory.text for memory in ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE)
    )


def cells(page):
    return page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets.map(c => c.model.sharedModel.source)"
    )


def test_mouse_and_keys_decide_and_nothing_reaches_the_notebook(lab, desk, tmp_path):
    ws, notebook = desk
    watched = lab.open(notebook)
    lab.run_all(watched)
    page = watched.page
    panel = page.get_by_role("region", name="Proposal review")
    panel.wait_for()
    before = cells(page)
    page.get_by_text("Guide number 0", exact=True).wait_for()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Guide number 1", exact=True).wait_for()
    assert guides(ws) == ["Rule 0: take a backup first."]

    panel.focus()
    page.keyboard.press("j")
    page.get_by_text("Guide number 2", exact=True).wait_for()
    page.keyboard.press("k")
    page.get_by_text("Guide number 1", exact=True).wait_for()
    page.keyboard.press("e")
    field = page.get_by_label("Proposed text")
    field.fill("Rule 1, in my words: x r d d.")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Guide number 2", exact=True).wait_for()
    assert guides(ws) == ["Rule 0: take a backup first.", "Rule 1, in my words: x r d d."]

    page.wait_for_timeout(400)
    page.keyboard.press("u")
    page.get_by_text("Guide number 1", exact=True).wait_for()
    assert guides(ws) == ["Rule 0: take a backup first."]

    page.get_by_label("Reason").fill("not ours")
    panel.focus()
    page.keyboard.press("r")
    page.get_by_text("Guide number 2", exact=True).wait_for()
    page.wait_for_timeout(400)
    page.keyboard.press("s")
    page.get_by_text("Guide number 3", exact=True).wait_for()
    page.keyboard.press("?")
    page.get_by_text("undo the last decision", exact=True).wait_for()
    page.keyboard.press("v")
    page.get_by_text("not found", exact=True).wait_for()
    for key in ("d", "d", "b", "m", "y"):
        page.keyboard.press(key)
    assert cells(page) == before
    states = {p.title: str(p.state) for p in ws.proposals.list()}
    assert (
        states["Guide number 0"] == "implemented"
        and states["Guide number 1"] == "rejected"
        and states["Guide number 2"] == "deferred"
    )
    page.screenshot(path=tmp_path / "panel.png")
    watched.clean()
    page.context.close()


def test_it_resumes_at_the_first_pending_one_when_it_is_opened_again(lab, desk):
    ws, notebook = desk
    first = review.list_proposals(ws)[0]
    review.approve(ws, first.id, by="ana", seen_hash=review.show(ws, first.id).hash)
    watched = lab.open(notebook)
    lab.run_all(watched)
    watched.page.get_by_text("Guide number 1", exact=True).wait_for()
    watched.clean()
    watched.page.context.close()


def test_hostile_text_stays_text_in_every_field(lab, desk):
    _ws, notebook = desk
    watched = lab.open(notebook)
    lab.run_all(watched)
    page = watched.page
    page.get_by_role("textbox", name="Search").fill("onerror")
    page.get_by_role("textbox", name="Search").press("Tab")
    page.get_by_text("1 of 2", exact=False).first.wait_for()
    page.get_by_role("button", name="Evidence", exact=True).click()
    page.get_by_text("not found", exact=True).wait_for()
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_text("Hidden characters", exact=False).first.wait_for()
    assert page.title() != "owned"
    assert page.locator(".sit-review img, .sit-review script").count() == 0
    assert page.get_by_label("Proposed text").input_value().endswith("⟨U+202E⟩")
    watched.clean()
    page.context.close()


def test_bulk_shows_what_it_would_do_and_leaves_high_risk_out(lab, desk):
    ws, notebook = desk
    watched = lab.open(notebook)
    lab.run_all(watched)
    page = watched.page
    page.get_by_role("button", name="Select shown", exact=True).click()
    page.get_by_text("7 selected", exact=True).first.wait_for()
    page.get_by_role("button", name="Approve selected…", exact=True).click()
    page.get_by_text("Approve 5 proposals? 2 of high risk are left out.", exact=False).wait_for()
    assert guides(ws) == []
    page.get_by_role("button", name="Confirm", exact=True).click()
    page.get_by_text("high risk is never approved in bulk", exact=False).first.wait_for()
    assert len(guides(ws)) == 5
    page.get_by_role("button", name="Undo", exact=True).click()
    page.get_by_text("Guide number 0", exact=True).wait_for()
    assert guides(ws) == []
    watched.clean()
    page.context.close()


def test_two_panels_lose_no_decision(lab, desk):
    ws, notebook = desk
    watched = lab.open(notebook)
    lab.run_all(watched)
    page = watched.page
    page.get_by_text("Guide number 0", exact=True).wait_for()
    first = review.list_proposals(ws)[0]
    review.reject(ws, first.id, by="ben", reason="meanwhile")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("changed since you opened it", exact=False).first.wait_for()
    page.get_by_text("Guide number 1", exact=True).wait_for()
    assert guides(ws) == []
    assert Path(ws.path).is_dir()
    watched.clean()
    page.context.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_panel_has_names_roles_and_contrast(lab, desk, dark):
    from axe_playwright_python.sync_playwright import Axe

    _ws, notebook = desk
    watched = lab.open(notebook, dark=dark)
    lab.run_all(watched)
    page = watched.page
    if dark:
        page.evaluate(
            "() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
        )
        page.wait_for_timeout(1500)
    page.get_by_role("region", name="Proposal review").wait_for()
    page.get_by_role("button", name="Keys ?", exact=True).click()
    found = Axe().run(page, context=".sit-review").response["violations"]
    told = [
        (fault["id"], fault["impact"], [node["html"][:120] for node in fault["nodes"]][:3]) for fault in found
    ]
    assert [fault for fault in told if fault[1] in ("serious", "critical")] == []
    page.context.close()
