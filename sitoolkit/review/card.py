"""What a reviewer is shown of one proposal: what would change, what it rests on, what it stands against.

A proposal comes in; a card goes out: its hash, the evidence down to file and line, a word diff against what stands now,
living guides that speak of the same, and a warning where the text hides characters. Everything is plain text; views escape it.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from sitoolkit.records import Category, Memory, Proposal, Record, Status

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["Card", "DiffPart", "EvidenceLine", "make_card", "proposed_text", "reveal_hidden", "word_diff"]

MOST_EVIDENCE = 20
_WORDS = re.compile(r"\s+|\w+|[^\w\s]", re.UNICODE)
_DIFF_WORDS = 4_000  # SequenceMatcher is quadratic; longer texts are compared by lines


class EvidenceLine(Record):
    """One piece of evidence: a call or a user's turn, and where it stands in a transcript."""

    id: str
    found: bool
    kind: str = ""
    session_id: str = ""
    tool: str = ""
    outcome: str = ""
    failure_mode: str | None = None
    text: str = ""  # arguments and result, or what the user said; cut
    file: str = ""
    line: int | None = None


class DiffPart(Record):
    """A run of text that is the same, added or removed."""

    change: Literal["same", "added", "removed"]
    text: str


class Card(Record):
    """Everything that a decision is taken on."""

    proposal: Proposal
    hash: str
    text: str  # what would be in force, hidden characters shown
    hidden: tuple[str, ...] = ()  # names of hidden characters in it
    against: str = ""  # what it is compared with
    against_id: str | None = None
    diff: tuple[DiffPart, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    evidence_left_out: int = 0
    conflicts: tuple[dict[str, Any], ...] = ()
    stale: str | None = None


# ---------------------------------------------------------------- text


def proposed_text(proposal: Proposal) -> str:
    """The text that an approval would put in force."""
    payload = proposal.payload
    for key in ("body", "text", "source", "patch", "suggested_fix"):
        if payload.get(key):
            return str(payload[key])
    fact = payload.get("fact")
    if isinstance(fact, dict):
        return str(fact.get("text", ""))
    return proposal.description or proposal.title


def reveal_hidden(text: str) -> tuple[str, tuple[str, ...]]:
    """Put `⟨U+XXXX⟩` where a text hides a character, and name those characters.

    >>> reveal_hidden("a\\u202eb")
    ('a⟨U+202E⟩b', ('U+202E RIGHT-TO-LEFT OVERRIDE',))
    """
    names: dict[str, None] = {}
    out: list[str] = []
    for character in text:
        if character in "\n\t" or unicodedata.category(character) not in (
            "Cc",
            "Cf",
            "Co",
            "Cs",
            "Cn",
            "Zl",
            "Zp",
        ):
            out.append(character)
            continue
        code = f"U+{ord(character):04X}"
        names[f"{code} {unicodedata.name(character, 'CONTROL CHARACTER')}"] = None
        out.append(f"⟨{code}⟩")
    return "".join(out), tuple(names)


def word_diff(before: str, after: str) -> tuple[DiffPart, ...]:
    """What changes from one text to the other, by words; by lines where the texts are long."""
    one, two = _WORDS.findall(before), _WORDS.findall(after)
    if len(one) + len(two) > _DIFF_WORDS:
        one, two = before.splitlines(keepends=True), after.splitlines(keepends=True)
    parts: list[DiffPart] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(DiffPart(change="same", text="".join(one[a:b])))
            continue
        if b > a:
            parts.append(DiffPart(change="removed", text="".join(one[a:b])))
        if d > c:
            parts.append(DiffPart(change="added", text="".join(two[c:d])))
    return tuple(parts)


# ---------------------------------------------------------------- the card


def make_card(ws: Workspace, proposal: Proposal, *, stale: str | None = None, evidence: bool = True) -> Card:
    """Gather what a reviewer needs for one proposal."""
    text, hidden = reveal_hidden(proposed_text(proposal))
    against_id, against = _against(ws, proposal, nearest=evidence)
    shown = proposal.evidence[:MOST_EVIDENCE]
    return Card(
        proposal=proposal,
        hash=proposal.hash,
        text=text,
        hidden=hidden,
        against=reveal_hidden(against)[0],
        against_id=against_id,
        diff=word_diff(reveal_hidden(against)[0], text) if against else (),
        evidence=tuple(_evidence(ws, shown)) if evidence else (),
        evidence_left_out=len(proposal.evidence) - len(shown),
        conflicts=tuple(_conflicts(ws, proposal)),
        stale=stale,
    )


def _against(ws: Workspace, proposal: Proposal, *, nearest: bool) -> tuple[str | None, str]:
    """What stands now where the proposal would stand: the guide, memory or tool that it changes, else the nearest memory."""
    payload = proposal.payload
    for memory_id in [
        payload.get("memory_id"),
        payload.get("keep"),
        *(payload.get("retire") or []),
        *(payload.get("replaces") or []),
    ]:
        memory = ws.memory.get(str(memory_id)) if memory_id else None
        if memory is not None:
            return memory.id, memory.text
    if proposal.type == "usage-guide":
        for guide in ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE):
            if guide.payload.get("intent") == payload.get("intent") and guide.payload.get(
                "agent"
            ) == payload.get("agent"):
                return guide.id, guide.text
    if proposal.type == "modify-tool" and int(payload.get("version", 0)) > 1:
        return str(payload["tool"]), ws.tools.source(str(payload["tool"]), int(payload["version"]) - 1)
    if nearest and proposal.type in ("usage-guide", "system-prompt", "fact-update"):
        found = _nearest(ws, proposed_text(proposal))
        if found is not None:
            return found.id, found.text
    return None, ""


def _nearest(ws: Workspace, text: str) -> Memory | None:
    import numpy as np

    snapshot = ws.memory.snapshot()
    if not snapshot.frame.height or not text.strip():
        return None
    vector = ws.embedder.embed([text], kind="passage")[0]
    if snapshot.matrix.shape[1] != len(vector):
        return None  # the table was made by another embedder; the doctor says so
    scores = snapshot.matrix @ vector
    best = int(np.argmax(scores))
    if float(scores[best]) < ws.embedder.floor_cosine:
        return None
    return ws.memory.get(str(snapshot.frame["id"][best]))


def _conflicts(ws: Workspace, proposal: Proposal) -> list[dict[str, Any]]:
    """Living guides that name the same tool or intent as what is proposed."""
    names = {str(proposal.payload.get(key)) for key in ("tool", "intent") if proposal.payload.get(key)}
    names |= set(re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", proposed_text(proposal)))
    found = []
    for guide in ws.memory.rows(category=Category.USAGE_GUIDE, status=Status.ACTIVE):
        if guide.payload.get("intent") == proposal.payload.get("intent") and guide.payload.get(
            "agent"
        ) == proposal.payload.get("agent"):
            continue
        shared = sorted(name for name in names if re.search(rf"\b{re.escape(name)}\b", guide.text))
        if shared:
            found.append(
                {
                    "memory_id": guide.id,
                    "intent": guide.payload.get("intent"),
                    "names": shared[:5],
                    "text": guide.text[:300],
                }
            )
    return found[:5]


def _evidence(ws: Workspace, ids: Sequence[str]) -> list[EvidenceLine]:
    """The occurrences behind a proposal; an id that resolves to nothing is said to, not left out."""
    if not ids:
        return []
    frame = ws.telemetry.resolve(ids)
    rows = {str(row["id"]): row for row in frame.iter_rows(named=True)}
    calls = {call.id: call for call in ws.telemetry.invocations(ids=list(ids))}
    lines = []
    for evidence_id in ids:
        row, call = rows.get(evidence_id), calls.get(evidence_id)
        if row is None:
            memory = ws.memory.get(evidence_id) if evidence_id.startswith("mem_") else None
            lines.append(
                EvidenceLine(
                    id=evidence_id,
                    found=memory is not None,
                    kind="memory" if memory else "",
                    text=memory.text[:600] if memory else "",
                )
            )
            continue
        text = (
            f"{call.args!r} → {call.error or call.result!r}"[:600]
            if call
            else str(row.get("text") or "")[:600]
        )
        lines.append(
            EvidenceLine(
                id=evidence_id, found=True, kind=str(row["kind"]), session_id=str(row["session_id"]), tool=str(row.get("tool") or ""),
                outcome=str(call.outcome) if call else "", failure_mode=call.failure_mode if call else None,
                text=reveal_hidden(text)[0], file=str(row["file"]), line=row["line"],
            )
        )  # fmt: skip
    return lines
