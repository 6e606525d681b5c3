"""The review panel: a workspace comes in, a widget goes out in which a person decides on proposals one at a time.

`Desk` holds what the panel knows and does, without a widget; `ReviewPanel` shows it. Every decision is taken by the
functions of `review` and saved at once. Text of others reaches the page in labels and text areas, or escaped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sitoolkit import review
from sitoolkit.errors import AlreadyDecided, SitoolkitError, StaleProposal
from sitoolkit.notebook import headless
from sitoolkit.records import Proposal, ProposalState, parse_time
from sitoolkit.views.html import escape, fragment, html_table, inline

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["KEYS", "Desk", "ReviewPanel"]

KEYS = {
    "j": "next", "k": "previous", "a": "approve", "r": "reject (give a reason)", "e": "edit the text", "s": "skip: defer",
    "u": "undo the last decision", "x": "select for bulk", "/": "search", "v": "evidence", "?": "this list",
    "Ctrl+Enter": "save the edited text and approve", "Esc": "leave a field",
}  # fmt: skip
_HOTKEYS = [
    "j",
    "k",
    "ArrowDown",
    "ArrowUp",
    "a",
    "r",
    "e",
    "s",
    "u",
    "x",
    "v",
    "/",
    "?",
    "ctrl+enter",
    "escape",
]
REASONS = ("wrong", "not ours", "too broad", "too narrow", "already covered", "not enough evidence", "other")
_GUARD_SECONDS = 0.3  # a second decision so soon is a double click
_WINDOW = 60  # titles in the list around the present one


class Desk:
    """What lies on a reviewer's desk: the proposals that pass the filters, the present one, and what was decided here.

    Args:
        ws: the workspace.
        reviewer: name written to each decision; none is taken without one.
        filters: as for `review.list_proposals`: states, type, risk, tool, text, run_id, min_count; and `since`.
    """

    def __init__(self, ws: Workspace, reviewer: str = "", **filters: Any) -> None:
        self.ws = ws
        self.reviewer = reviewer
        self.filters: dict[str, Any] = filters
        self.selected: dict[str, str] = {}  # id to the hash that was shown
        self.decided: list[tuple[str, str]] = []  # ("one" | "group", id), newest last
        self.queue: list[str] = []
        self.place = 0
        self.card: review.Card | None = None
        self.error = ""
        self.message = ""
        self.total = 0
        self._begun = time.monotonic()
        self._last_decision = 0.0
        self.refresh()

    # ------------------------------------------------------------ looking

    def refresh(self) -> None:
        """Read the queue again and stay at the present proposal where it is still there."""
        present = self.card.proposal.id if self.card else None
        filters = dict(self.filters)
        since = parse_time(filters.pop("since", None) or None)
        found = [
            p
            for p in review.list_proposals(self.ws, **filters)
            if since is None or (p.created_at or since) >= since
        ]
        self.queue = [proposal.id for proposal in found]
        self.titles = {proposal.id: proposal for proposal in found}
        self.total = len(self.queue)
        self.selected = {key: seen for key, seen in self.selected.items() if key in self.titles}
        self.go(
            self.queue.index(present)
            if present in self.titles
            else min(self.place, max(0, len(self.queue) - 1))
        )

    def go(self, place: int) -> None:
        """Show the proposal at a place of the queue; beyond its ends the first or last."""
        self.place = min(max(0, place), max(0, len(self.queue) - 1))
        self.card = review.show(self.ws, self.queue[self.place], evidence=False) if self.queue else None

    def open_evidence(self) -> review.Card | None:
        """The present card with its evidence, and what it stands against."""
        if self.card is not None:
            self.card = review.show(self.ws, self.card.proposal.id)
        return self.card

    @property
    def progress(self) -> str:
        """Where the reviewer is, for a line of text."""
        if not self.queue:
            return f"nothing waits here; {len(self.decided)} decided in this sitting"
        minutes = max((time.monotonic() - self._begun) / 60, 1 / 60)
        deferred = sum(self.titles[key].state is ProposalState.DEFERRED for key in self.queue)
        pace = f", {len(self.decided) / minutes:.1f} a minute" if self.decided else ""
        return f"{self.place + 1} of {self.total}, {deferred} deferred, {len(self.decided)} decided in this sitting{pace}"

    # ------------------------------------------------------------ deciding

    def approve(self, text: str | None = None) -> None:
        """Approve the present proposal; a text that differs from the proposed one makes it a modified one."""
        card = self._ready()
        if card is None:
            return
        edits = None
        if text is not None and text.strip() != card.text.strip():
            key = _text_key(card.proposal)
            if key is None:
                self.error = f"the text of a {card.proposal.type} proposal cannot be edited here"
                return
            edits = (
                {"fact": {**card.proposal.payload["fact"], "text": text.strip()}}
                if key == "fact"
                else {key: text.strip()}
            )
        self._decide(
            lambda: review.approve(
                self.ws, card.proposal.id, by=self.reviewer, seen_hash=card.hash, edits=edits
            )
        )

    def reject(self, reason: str) -> None:
        """Reject the present proposal."""
        card = self._ready()
        if card is not None:
            self._decide(
                lambda: review.reject(
                    self.ws, card.proposal.id, by=self.reviewer, reason=reason, seen_hash=card.hash
                )
            )

    def defer(self) -> None:
        """Put the present proposal behind the others."""
        card = self._ready()
        if card is not None:
            self._decide(lambda: review.defer(self.ws, card.proposal.id, by=self.reviewer))

    def undo(self) -> None:
        """Take the last decision of this sitting back and show that proposal again."""
        if not self.decided:
            self.error = (
                "nothing was decided in this sitting; `sitoolkit review undo ID` takes back an older decision"
            )
            return
        kind, key = self.decided[-1]
        try:
            if kind == "group":
                ids = review.undo_group(self.ws, key, by=self.reviewer).done
            else:
                ids = (key,)
                review.undo(self.ws, key, by=self.reviewer)
            for proposal_id in ids:
                if self.ws.proposals.get(proposal_id).state is ProposalState.UNDONE:
                    review.reopen(self.ws, proposal_id, by=self.reviewer)
        except SitoolkitError as fault:
            self.error = str(fault)
            return
        self.decided.pop()
        self.error, self.message = "", f"undone: {len(ids)} decision{'s' if len(ids) != 1 else ''}"
        self.card = None
        self.refresh()
        places = [self.queue.index(key) for key in ids if key in self.titles]
        if places:
            self.go(min(places))

    def toggle(self) -> None:
        """Select the present proposal for a bulk decision, or not any more."""
        if self.card is None:
            return
        key = self.card.proposal.id
        if self.selected.pop(key, None) is None:
            self.selected[key] = self.card.hash
        self.message = f"{len(self.selected)} selected"

    def select_shown(self) -> None:
        """Select everything that passes the filters, as it is now."""
        self.selected = {key: self.titles[key].hash for key in self.queue}
        self.message = f"{len(self.selected)} selected"

    def bulk_approve(self) -> None:
        """Approve the selected ones; those of high risk are left out by the gate."""
        self._bulk(lambda: review.approve_many(self.ws, self.selected, by=self.reviewer))

    def bulk_reject(self, reason: str) -> None:
        """Reject the selected ones for one reason."""
        self._bulk(lambda: review.reject_many(self.ws, list(self.selected), by=self.reviewer, reason=reason))

    def set_risk(self, risk: Any) -> None:
        """Change the risk of the present proposal."""
        card = self._ready()
        if card is None or card.proposal.risk == risk:
            return
        try:
            review.set_risk(self.ws, card.proposal.id, risk, by=self.reviewer)
            self.error, self.message = "", f"risk is {risk}"
        except SitoolkitError as fault:
            self.error = str(fault)
        self.refresh()

    def _ready(self) -> review.Card | None:
        self.error = ""
        if not self.reviewer.strip():
            self.error = "write your name first: a decision needs the name of the person who takes it"
            return None
        if time.monotonic() - self._last_decision < _GUARD_SECONDS:
            return None
        return self.card

    def _decide(self, decide: Callable[[], review.Outcome]) -> None:
        try:
            outcome = decide()
        except (AlreadyDecided, StaleProposal) as fault:
            self.error = f"changed since you opened it: {fault}"
            self.card = None
            self.refresh()
            return
        except SitoolkitError as fault:
            self.error = str(fault)
            self.refresh()
            return
        self._last_decision = time.monotonic()
        self.decided.append(("one", outcome.proposal.id))
        said = {
            "approve": "approved",
            "modify": "approved with your text",
            "reject": "rejected",
            "defer": "deferred",
        }
        self.message = f"{said.get(outcome.decision.verdict, outcome.decision.verdict)}; undo with u"
        at = self.place
        self.card = None
        self.refresh()
        self.go(at)

    def _bulk(self, decide: Callable[[], review.BulkOutcome]) -> None:
        self.error = ""
        if not self.reviewer.strip():
            self.error = "write your name first: a decision needs the name of the person who takes it"
            return
        try:
            outcome = decide()
        except SitoolkitError as fault:
            self.error = str(fault)
            return
        if outcome.done:
            self.decided.append(("group", outcome.group))
        self.message = f"{len(outcome.done)} decided, {len(outcome.left_out)} left out; undo with u"
        self.error = "; ".join(f"{key}: {why}" for key, why in list(outcome.left_out.items())[:3])
        self.selected = {}
        self.card = None
        self.refresh()


def _text_key(proposal: Proposal) -> str | None:
    """The payload field that the editable text is."""
    return {
        "usage-guide": "body",
        "system-prompt": "text",
        "code-fix": "suggested_fix",
        "fact-update": "fact",
    }.get(proposal.type)


# ---------------------------------------------------------------- the widget


class ReviewPanel:
    """A panel in JupyterLab in which proposals are reviewed, by mouse or by keys.

    >>> ReviewPanel(ws, reviewer="ana")                 # doctest: +SKIP

    Without a front end (papermill, an exported notebook) it shows itself as a table with the same columns.

    Args:
        ws: the workspace.
        reviewer: who decides.
        state: only this state; empty: everything that is open.
        type: only this type; empty: all.
        risk: only this risk; empty: all.
        tool: only what is about this tool.
        since: only what was proposed since.
        run: only what this run proposed.
    """

    def __init__(
        self, ws: Workspace, reviewer: str = "", *, state: str = "", type: str = "", risk: str = "", tool: str = "",
        since: str | datetime | None = None, run: str = "",
    ) -> None:  # fmt: skip
        # An open queue holds stale ones too: they wait for a look as much as pending ones do.
        states = review.OPEN_STATES if state in ("", "pending", "open") else [state]
        self.desk = Desk(
            ws,
            reviewer,
            states=states,
            type=type or None,
            risk=risk or None,
            tool=tool or None,
            run_id=run or None,
            since=since,
        )
        self._confirm: Callable[[], None] | None = None
        self._widget: Any = None

    # ------------------------------------------------------------ showing

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if headless():
            return {"text/html": self.table(), "text/plain": self.text()}
        bundle = self.widget._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, "text/html": self.table(), "text/plain": self.text()}

    def table(self) -> str:
        """The queue as an escaped HTML table."""
        rows = [
            {
                "state": str(p.state), "type": p.type, "risk": p.risk, "proposal": p.title, "seen": p.seen_count,
                "evidence": len(p.evidence), "proposed by": p.proposed_by, "id": p.id,
            }
            for p in (self.desk.titles[key] for key in self.desk.queue)
        ]  # fmt: skip
        if not rows:
            return fragment("<p>Nothing waits for a decision.</p>")
        table = html_table(rows, caption=f"{len(rows)} proposals wait for a decision", limit=50)
        return fragment(
            table
            + '<p class="sit-quiet">Open notebooks/05_proposal_review.ipynb to decide, or run: sitoolkit review list</p>'
        )

    def text(self) -> str:
        """The queue as text."""
        lines = [
            f"{p.id}  {p.state}  {p.type}  {p.risk}  {p.title}"
            for p in (self.desk.titles[key] for key in self.desk.queue[:50])
        ]
        return "\n".join([f"{len(self.desk.queue)} proposals wait for a decision", *lines])

    @property
    def widget(self) -> Any:
        """The live widget, made when it is first shown."""
        if self._widget is None:
            self._build()
            self._draw()
        return self._widget

    def _build(self) -> None:
        import ipywidgets as w

        from sitoolkit.views.keys import PANEL_CLASS, PanelKeys

        wide = w.Layout(width="auto")
        self.keys = PanelKeys(hotkeys=_HOTKEYS)
        self.keys.on_msg(self._on_key)
        self.reviewer = w.Text(
            value=self.desk.reviewer, description="Reviewer", placeholder="your name", continuous_update=True
        )
        self.reviewer.observe(lambda change: setattr(self.desk, "reviewer", change["new"]), "value")
        types = [
            "",
            "usage-guide",
            "fact-update",
            "promote-scope",
            "code-fix",
            "new-tool",
            "modify-tool",
            "retire-tool",
            "system-prompt",
            "merge",
            "retire-memory",
        ]
        self.type = w.Dropdown(
            options=[(kind or "all types", kind) for kind in types],
            value=self.desk.filters.get("type") or "",
            description="Type",
        )
        self.risk_filter = w.Dropdown(
            options=[("all", ""), ("low", "low"), ("medium", "medium"), ("high", "high")],
            value=self.desk.filters.get("risk") or "",
            description="Risk filter",
        )
        self.search = w.Text(
            description="Search", placeholder="words in the proposal", continuous_update=False
        )
        self.search.add_class("sit-search")
        for control in (self.type, self.risk_filter, self.search):
            control.observe(self._on_filter, "value")
        self.list = w.Select(options=[], description="Queue", rows=12, layout=w.Layout(width="auto"))
        self.list.add_class("sit-list")
        self._watch_list = True
        self.list.observe(self._on_list, "index")
        self.progress = w.Label()
        self.title, self.meta = w.Label(), w.Label()
        self.title.add_class("sit-title")
        self.note, self.warning, self.error = w.Label(), w.Label(), w.Label()
        for label, css in (
            (self.meta, "sit-wrap"),
            (self.note, "sit-wrap"),
            (self.warning, "sit-warn"),
            (self.error, "sit-error"),
        ):
            label.add_class(css)
        self.text_area = w.Textarea(description="Proposed text", rows=7, layout=wide)
        self.text_area.style.description_width = "initial"
        self.text_area.add_class("sit-text")
        self.diff = w.HTML()
        self.card_risk = w.Dropdown(
            options=["low", "medium", "high"], description="Risk", layout=w.Layout(width="170px")
        )
        self.card_risk.observe(self._on_risk, "value")
        self.reason = w.Combobox(
            options=REASONS, description="Reason", placeholder="for a rejection", continuous_update=True
        )
        self.reason.add_class("sit-reason")
        self.buttons = {}
        rows = (
            ("Approve", "success", self.approve), ("Reject", "danger", self.reject), ("Defer", "", self.defer), ("Undo", "", self.undo),
            ("Previous", "", lambda: self.move(-1)), ("Next", "", lambda: self.move(1)), ("Select", "", self.toggle), ("Evidence", "", self.evidence),
        )  # fmt: skip
        for name, style, action in rows:
            button = w.Button(
                description=name, button_style=style, tooltip=name, layout=w.Layout(width="auto")
            )
            button.on_click(lambda _, action=action: action())
            self.buttons[name] = button
        self.evidence_box = w.HTML(layout=w.Layout(display="none"))
        self.bulk_buttons = {}
        for name, action in (
            ("Select shown", self.select_shown), ("Approve selected…", self.preview_approve), ("Reject selected…", self.preview_reject),
            ("Confirm", self.confirm), ("Cancel", self.cancel), ("Keys ?", self.help),
        ):  # fmt: skip
            button = w.Button(description=name, tooltip=name, layout=w.Layout(width="auto"))
            button.on_click(lambda _, action=action: action())
            self.bulk_buttons[name] = button
        self.bulk_label = w.Label()
        self.bulk_label.add_class("sit-wrap")
        self.help_box = w.HTML(layout=w.Layout(display="none"))
        self.help_box.value = (
            "<table>"
            + "".join(
                f"<tr><td><kbd>{escape(k)}</kbd></td><td>{escape(v)}</td></tr>" for k, v in KEYS.items()
            )
            + "</table>"
        )
        flow = w.Layout(flex_flow="row wrap", align_items="center", width="100%")
        card = w.VBox(
            [
                self.title, self.meta, self.note, self.warning, self.text_area, self.diff,
                w.HBox([self.buttons[n] for n in ("Approve", "Reject", "Defer", "Undo")] + [self.reason, self.card_risk], layout=flow),
                w.HBox([self.buttons[n] for n in ("Previous", "Next", "Select", "Evidence")], layout=flow),
                self.evidence_box,
            ],
            layout=w.Layout(width="66%", min_width="380px", padding="0 0 0 12px", flex="2 1 380px"),
        )  # fmt: skip
        side = w.VBox(
            [self.list, self.progress], layout=w.Layout(width="33%", min_width="260px", flex="1 1 260px")
        )
        self._widget = w.VBox(
            [
                self.keys,
                w.HBox([self.reviewer, self.type, self.risk_filter, self.search], layout=flow),
                self.error,
                w.HBox([side, card], layout=w.Layout(flex_flow="row wrap", width="100%")),
                w.HBox([*self.bulk_buttons.values(), self.bulk_label], layout=flow),
                self.help_box,
            ],
            layout=w.Layout(width="100%"),
        )
        self._widget.add_class(PANEL_CLASS)

    def _draw(self) -> None:
        """Put what the desk knows into the widgets."""
        desk = self.desk
        first = max(0, min(desk.place - _WINDOW // 2, len(desk.queue) - _WINDOW))
        shown = desk.queue[first : first + _WINDOW]
        self._first = first
        self._watch_list = False
        self.list.options = [
            f"{'☑' if key in desk.selected else '☐'} {number}. {_oneline(desk.titles[key])}"
            for number, key in enumerate(shown, first + 1)
        ]
        self.list.index = desk.place - first if shown else None
        self._watch_list = True
        self.progress.value = desk.progress
        self.error.value = desk.error
        self.keys.message = desk.error or desk.message
        self.bulk_label.value = (
            f"{len(desk.selected)} selected"
            if desk.selected and self._confirm is None
            else self.bulk_label.value
            if self._confirm
            else ""
        )
        for name in ("Confirm", "Cancel"):
            self.bulk_buttons[name].layout.display = "" if self._confirm else "none"
        self._draw_card()

    def _draw_card(self) -> None:
        card = self.desk.card
        self.evidence_box.layout.display = "none"
        if card is None:
            self.title.value = "Nothing waits for a decision here."
            self.meta.value = self.note.value = self.warning.value = self.text_area.value = (
                self.diff.value
            ) = ""
            return
        proposal = card.proposal
        impact = proposal.expected_impact
        self.title.value = _visible(proposal.title)
        self.meta.value = (
            f"{proposal.type} · {proposal.state} · {proposal.confidence} confidence · proposed {proposal.seen_count}× by {proposal.proposed_by or '?'}"
            f" · {len(proposal.evidence)} pieces of evidence"
            + (
                f" · effect {impact['estimate']:+.1%} ({impact['low']:.1%} to {impact['high']:.1%})"
                if "estimate" in impact
                else ""
            )
        )
        self.note.value = _visible(" — ".join(part for part in (proposal.description, proposal.note) if part))
        warnings = [f"Stale: {card.stale}"] if card.stale else []
        warnings += [f"Hidden characters: {', '.join(card.hidden)}"] if card.hidden else []
        warnings += [f"Guide {c['intent']} also speaks of {', '.join(c['names'])}" for c in card.conflicts]
        self.warning.value = _visible("\n".join(warnings))
        self.text_area.value = card.text
        self.text_area.disabled = False
        self.diff.value = _diff(card)
        self._watch_risk = False
        self.card_risk.value = proposal.risk
        self._watch_risk = True

    # ------------------------------------------------------------ doing

    def approve(self) -> None:
        """Approve the present proposal with the text as it stands in the field."""
        self.desk.approve(self.text_area.value)
        self._after()

    def reject(self) -> None:
        """Reject the present proposal for the reason in the field."""
        if not self.reason.value.strip():
            self.desk.error = "give a reason first"
            self._draw()
            self.keys.focus("sit-reason")
            return
        self.desk.reject(self.reason.value)
        self._after()

    def defer(self) -> None:
        """Put the present proposal behind the others."""
        self.desk.defer()
        self._after()

    def undo(self) -> None:
        """Take the last decision back."""
        self.desk.undo()
        self._after()

    def move(self, step: int) -> None:
        """Go to the next or previous proposal."""
        self.desk.error = ""
        self.desk.go(self.desk.place + step)
        self._draw()

    def toggle(self) -> None:
        """Select the present proposal for a bulk decision."""
        self.desk.toggle()
        self._draw()

    def select_shown(self) -> None:
        """Select all that pass the filters."""
        self.desk.select_shown()
        self._draw()

    def preview_approve(self) -> None:
        """Show what a bulk approval would do, and wait for the confirmation."""
        high = [key for key in self.desk.selected if self.desk.titles[key].risk == "high"]
        self._preview(
            f"Approve {len(self.desk.selected) - len(high)} proposals? {len(high)} of high risk are left out.",
            self.desk.bulk_approve,
        )

    def preview_reject(self) -> None:
        """Show what a bulk rejection would do, and wait for the confirmation."""
        reason = self.reason.value.strip()
        if not reason:
            self.desk.error = "give a reason first"
            self._draw()
            self.keys.focus("sit-reason")
            return
        self._preview(
            f"Reject {len(self.desk.selected)} proposals as “{_visible(reason)}”?",
            lambda: self.desk.bulk_reject(reason),
        )

    def _preview(self, question: str, action: Callable[[], None]) -> None:
        if not self.desk.selected:
            self.desk.error = "nothing is selected; press x on a proposal, or “Select shown”"
            self._draw()
            return
        titles = "; ".join(_oneline(self.desk.titles[key]) for key in list(self.desk.selected)[:5])
        self._confirm = action
        self.bulk_label.value = f"{question} {titles}{' …' if len(self.desk.selected) > 5 else ''}"
        self._draw()

    def confirm(self) -> None:
        """Do what was previewed."""
        action, self._confirm = self._confirm, None
        if action is not None:
            action()
        self._after()

    def cancel(self) -> None:
        """Do not do what was previewed."""
        self._confirm = None
        self._draw()

    def evidence(self) -> None:
        """Open or close the evidence of the present proposal."""
        if self.evidence_box.layout.display == "none":
            card = self.desk.open_evidence()
            self._draw_card()
            self.evidence_box.value = _evidence(card) if card else ""
            self.evidence_box.layout.display = ""
        else:
            self.evidence_box.layout.display = "none"

    def help(self) -> None:
        """Show or hide the list of keys."""
        self.help_box.layout.display = "" if self.help_box.layout.display == "none" else "none"

    def _after(self) -> None:
        self._confirm = None
        self._draw()
        self.keys.focus()

    # ------------------------------------------------------------ events

    def _on_key(self, widget: Any, content: Any, buffers: Any) -> None:
        actions: dict[str, Callable[[], None]] = {
            "j": lambda: self.move(1), "ArrowDown": lambda: self.move(1), "k": lambda: self.move(-1), "ArrowUp": lambda: self.move(-1),
            "a": self.approve, "r": self.reject, "e": lambda: self.keys.focus("sit-text"), "s": self.defer, "u": self.undo, "x": self.toggle,
            "v": self.evidence, "/": lambda: self.keys.focus("sit-search"), "?": self.help, "ctrl+enter": self.approve, "escape": self.cancel,
        }  # fmt: skip
        action = actions.get(str(content.get("key"))) if isinstance(content, dict) else None
        if action is not None:
            action()

    def _on_filter(self, change: Any) -> None:
        self.desk.filters |= {
            "type": self.type.value or None,
            "risk": self.risk_filter.value or None,
            "text": self.search.value or None,
        }
        self.desk.card = None
        self.desk.place = 0
        self.desk.error = ""
        self.desk.refresh()
        self._draw()

    def _on_list(self, change: Any) -> None:
        if self._watch_list and change["new"] is not None:
            self.desk.go(self._first + change["new"])
            self._draw()

    def _on_risk(self, change: Any) -> None:
        if getattr(self, "_watch_risk", False):
            self.desk.set_risk(change["new"])
            self._draw()


def _visible(text: str) -> str:
    return review.reveal_hidden(text)[0]


def _oneline(proposal: Proposal) -> str:
    return _visible(" ".join(proposal.title.split()))[:90]


def _diff(card: review.Card) -> str:
    """The word diff as escaped HTML; added words are underlined, removed ones struck through."""
    if not card.diff:
        return ""
    tags = {"same": ("", ""), "added": ("<ins>", "</ins>"), "removed": ("<del>", "</del>")}
    body = "".join(tags[part.change][0] + escape(part.text) + tags[part.change][1] for part in card.diff)
    return f'<div>Against {inline(card.against_id or "what stands now", 60)}:</div><pre class="sit-diff">{body}</pre>'


def _evidence(card: review.Card) -> str:
    rows = [
        {
            "what": " ".join(part for part in (line.tool or line.kind, line.outcome, line.failure_mode or "") if part) if line.found else "not found",
            "call": line.text, "where": f"{line.file}:{line.line}" if line.file else "", "session": line.session_id, "id": line.id[:16],
        }
        for line in card.evidence
    ]  # fmt: skip
    more = f"<p>and {card.evidence_left_out} more</p>" if card.evidence_left_out else ""
    return fragment(html_table(rows, caption=f"Evidence of {card.proposal.id}", limit=40) + more)
