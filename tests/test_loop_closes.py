"""The loop closes: whatever any writer writes, every reader that may see it recalls it, and no one else does.

One workspace on real stores, filled through the public path by every writer in turn. A new writer is one line in `WRITERS`: a
function that takes the workspace (and the folder of the test) and writes; what stands active afterwards and did not before is
what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from sitoolkit.errors import ParameterError
from sitoolkit.guides import import_guides
from sitoolkit.loops.capture import capture_sessions
from sitoolkit.loops.distill import distill_patterns
from sitoolkit.loops.lessons import learn_from_failures
from sitoolkit.models.embedders import WordLlamaEmbedder
from sitoolkit.prompt_block import strip_recalled
from sitoolkit.recall import explain, recall, who_saw
from sitoolkit.records import Category, Memory, Origin, Reader, Scope
from sitoolkit.settings import Settings
from sitoolkit.shipped import shipped
from sitoolkit.transcripts import read_sessions
from sitoolkit.workspace import Workspace

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
SAMPLE = 4  # rows of one writer in one scope that are asked for; the demo has some hundred

# ---------------------------------------------------------------- writers


def _capture(ws: Workspace, folder: Path) -> None:
    capture_sessions(ws, read_sessions(shipped("data") / "transcripts"))


def _distill(ws: Workspace, folder: Path) -> None:
    distill_patterns(ws)


def _lessons(ws: Workspace, folder: Path) -> None:
    learn_from_failures(ws)


def _lessons_of_origin(ws: Workspace, folder: Path) -> None:
    learn_from_failures(ws, scope="origin")


def _facts(ws: Workspace, folder: Path) -> None:
    from sitoolkit.loops import corrections

    corrections.learn_facts(ws, read_sessions(shipped("data") / "transcripts"))


def _reflection(ws: Workspace, folder: Path) -> None:
    from sitoolkit.loops.reflection import reflect_on_session

    for session in ws.telemetry.sql("select id from sessions order by id limit 5")["id"].to_list():
        reflect_on_session(ws, session)


def _triage(ws: Workspace, folder: Path) -> None:
    from sitoolkit.loops.triage import triage_signatures

    triage_signatures(ws)


def _guides(ws: Workspace, folder: Path) -> None:
    import_guides(ws, shipped("guides"))


def _guides_of_every_scope(ws: Workspace, folder: Path) -> None:
    for number, scope in enumerate(
        ["global", "org:acme", "team:sre", "project:web", "agent:ops", "agent:other"]
    ):
        (folder / f"g{number}.guide.yaml").write_text(
            f"intent: pager_rule_{number}\nagent: ops\nscope: {scope}\nkeywords: [pager]\n"
            f"body: Call the pager rota {number * 111 + 7000} before work on {scope}.\n"
        )
    import_guides(ws, folder)


def _approved(ws: Workspace, folder: Path) -> None:
    from sitoolkit.review import gate

    for proposal in (
        ws.proposals.propose(
            type="fact-update",
            title="The staging region moved",
            evidence=["call_1"],
            payload={
                "fact": {
                    "scope": "project:web",
                    "text": "The staging region of the web shop is eu-north-7.",
                    "evidence": ["call_1"],
                }
            },
        ),
        ws.proposals.propose(
            type="usage-guide",
            title="Check the ledger first",
            payload={
                "agent": "ops",
                "intent": "check_ledger",
                "keywords": ["ledger"],
                "body": "Read ledger_4711 before a refund is issued.",
            },
        ),
    ):
        card = gate.show(ws, proposal.id)
        gate.approve(ws, proposal.id, by="kim", seen_hash=card.hash)


def _every_category_and_scope(ws: Workspace, folder: Path) -> None:
    origins = {
        Category.USAGE_GUIDE: Origin.DIRECTIVE,
        Category.REFLECTION: Origin.REFLECTED,
        Category.LEARNED_FACT: Origin.USER_STATED,
        Category.EXPERT_KNOWLEDGE: Origin.DISTILLED,
        Category.OPERATIONAL_EVENT: Origin.OBSERVED,
    }
    scopes = [
        "global",
        "org:acme",
        "team:sre",
        "project:web",
        "agent:ops",
        "agent:other",
        "project:other",
        "session:s1",
    ]
    ws.memory.upsert(
        [
            Memory(
                category=category,
                scope=Scope(scope),
                text=f"Valve {number}{place} in hall {scope.replace(':', ' ')} is bled by way of {category.value}.",
                origin=origin,
            )
            for number, (category, origin) in enumerate(origins.items(), 1)
            for place, scope in enumerate(scopes)
        ],
        run_id="run_plain",
    )


WRITERS: dict[str, Callable[[Workspace, Path], None]] = {
    "plain upsert": _every_category_and_scope,
    "capture": _capture,
    "distill": _distill,
    "lessons": _lessons,
    "lessons of origin": _lessons_of_origin,
    "corrections": _facts,
    "session reflection": _reflection,
    "triage": _triage,
    "guides": _guides,
    "guides of every scope": _guides_of_every_scope,
    "approved proposals": _approved,
}
# Writers whose output is proposals or reports today: nothing to recall is no failure for them.
MAY_WRITE_NOTHING = {"session reflection", "triage", "lessons of origin"}

READERS = {
    "unset": None,
    "empty": Reader(),
    "ops": Reader(agent="ops"),
    "other": Reader(agent="other"),
    "web": Reader(project="web"),
    "sre of acme": Reader(team="sre", org="acme"),
    "session": Reader(session="s1"),
    "all of it": Reader(agent="ops", project="web", team="sre", org="acme", session="s1"),
    "a stranger": Reader(agent="stranger", project="strange", team="none", org="void"),
}

# ---------------------------------------------------------------- one workspace, filled by all of them


class Filled(NamedTuple):
    """The workspace, what each writer wrote, and the error of a writer that failed."""

    ws: Workspace
    wrote: dict[str, list[Memory]]
    failed: dict[str, Exception]

    def rows(self, writer: str) -> list[Memory]:
        if isinstance(self.failed.get(writer), ModuleNotFoundError):
            pytest.skip(f"{writer} is not in this version")
        if writer in self.failed:
            raise AssertionError(f"{writer} failed") from self.failed[writer]
        return self.wrote[writer]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    settings = Settings.model_validate({"recall": {"budget_tokens": 50_000, "item_tokens": 5_000}})
    ws = Workspace(
        tmp_path_factory.mktemp("loop"), embedder=WordLlamaEmbedder(), clock=lambda: NOW, settings=settings
    )
    wrote: dict[str, list[Memory]] = {}
    failed: dict[str, Exception] = {}
    known: set[str] = set()
    for name, writer in WRITERS.items():
        try:
            writer(ws, tmp_path_factory.mktemp("writer"))
        except Exception as fault:  # noqa: BLE001 - one writer's fault is its own test's failure, not all the others'
            failed[name] = fault
        rows = [memory for memory in ws.memory.rows(status="active") if memory.id not in known]
        known.update(memory.id for memory in rows)
        wrote[name] = rows
    return Filled(ws, wrote, failed)


def _sample(rows: list[Memory]) -> list[Memory]:
    taken: dict[tuple[str, str], int] = {}
    out = []
    for memory in rows:
        key = (str(memory.scope), str(memory.category))
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= SAMPLE:
            out.append(memory)
    return out


def _comes(ws: Workspace, memory: Memory, reader: Reader | None, k: int) -> bool:
    """Whether the row is in the recall, or an item that says it stands for the row too."""
    found = recall(ws, memory.text[:2_000], reader, k=k, journal=False)
    return any(item.memory_id == memory.id or memory.id in item.why for item in found.items)


@pytest.mark.parametrize("writer", list(WRITERS))
def test_what_is_written_comes_to_those_who_may_see_it_and_to_no_other(filled: Filled, writer: str) -> None:
    ws = filled.ws
    rows = _sample(filled.rows(writer))
    assert rows or writer in MAY_WRITE_NOTHING, f"{writer} wrote nothing"
    for memory in rows:
        for name, reader in {**READERS, "its own": _reader_of(memory.scope)}.items():
            may = memory.scope in (reader or Reader()).scopes
            for k in (1, 2, 3, 13):
                assert _comes(ws, memory, reader, k) is may, (
                    writer,
                    str(memory.scope),
                    name,
                    k,
                    memory.text[:120],
                )


def _reader_of(scope: Scope) -> Reader:
    return Reader() if scope == "global" else Reader.model_validate({scope.kind: scope.name})


def test_nothing_out_of_scope_ever_comes_whatever_is_asked(
    filled: Filled,
) -> None:
    ws = filled.ws
    questions = [memory.text[:200] for rows in filled.wrote.values() for memory in rows[:2]] + [
        "deploy",
        "token",
        "valve hall",
    ]
    for reader in READERS.values():
        allowed = (reader or Reader()).scopes
        for question in questions:
            assert all(
                item.scope in allowed for item in recall(ws, question, reader, k=13, journal=False).items
            )


def test_what_was_shown_is_explained_and_who_saw_it_is_known(
    filled: Filled,
) -> None:
    ws = filled.ws
    memory = filled.rows("capture")[0]
    found = recall(ws, memory.text, _reader_of(memory.scope), k=3)
    assert found.id in [seen["recall_id"] for seen in who_saw(ws, found.items[0].memory_id)]
    assert explain(ws, found.id)["scopes"] == sorted(_reader_of(memory.scope).scopes)


def test_each_row_rests_on_evidence_that_resolves(filled: Filled) -> None:
    ws = filled.ws
    for writer in ("capture", "distill", "lessons"):
        for memory in _sample(filled.rows(writer)):
            assert memory.evidence, (writer, memory.text[:80])
            resolved = ws.telemetry.resolve(memory.evidence)
            assert set(memory.evidence) <= set(resolved["id"].to_list()), writer


def test_a_recalled_block_in_a_transcript_is_not_learned_again(filled: Filled, tmp_path: Path) -> None:
    ws = filled.ws
    memory = filled.rows("lessons")[0]
    block = recall(ws, memory.text, _reader_of(memory.scope)).text
    assert "<recalled-memories" in block
    fresh = Workspace(tmp_path / "fresh", embedder=ws.embedder, clock=lambda: NOW)
    transcript = tmp_path / "chat.jsonl"
    import json

    messages = [
        {"role": "system", "content": block},
        {"role": "user", "content": f"{block}\n\nplease register it"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "write_note", "arguments": json.dumps({"note": f"{block} done"})}}]},
        {"role": "tool", "tool_call_id": "c", "content": f"ok {block}"},
    ]  # fmt: skip
    transcript.write_text(json.dumps({"messages": messages}) + "\n")
    capture_sessions(fresh, read_sessions(transcript))
    for row in fresh.memory.rows():
        assert strip_recalled(row.text) == row.text
        assert memory.text[:60] not in row.text


def test_a_wrong_question_is_an_error_not_an_empty_answer(
    filled: Filled,
) -> None:
    with pytest.raises(ParameterError):
        recall(filled.ws, "deploy", k=0)
