"""`recall`, `explain`, `who-saw`: a question comes in, what reaches the prompt goes out; and who was shown what."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import TIME, emit, json_option, note, reader_options, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.records import Reader, Recall
    from sitoolkit.workspace import Workspace

__all__ = ["explain_command", "recall_command", "who_saw_command"]


@verb(
    "recall",
    examples="""sitoolkit recall "how do I register a service" --agent ops
sitoolkit recall "HTTP 429 from list_issues" --agent ops -k 3 --budget 400 --explain
sitoolkit recall "token for grafana" --project web --json
sitoolkit recall "who deploys" --as-of 2026-01-31T00:00:00Z""",
)
@click.argument("query")
@with_workspace
@reader_options
@json_option
@click.option(
    "-k", "k", type=click.IntRange(min=1), help="How many memories at most.  [recall.k of the settings]"
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    help="Tokens the block may have, estimated.  [recall.budget_tokens]",
)
@click.option(
    "--as-of",
    type=TIME,
    metavar="TIME",
    help="Answer as memory stood then; a date is its first instant in UTC.",
)
@click.option(
    "--explain", "parts", is_flag=True, help="Show the score parts of each memory, and what was passed over."
)
def recall_command(
    ws: Workspace,
    reader: Reader,
    query: str,
    k: int | None,
    budget: int | None,
    as_of: datetime | None,
    parts: bool,
    as_json: bool,
) -> None:
    """What a reader's prompt gets for QUERY; the recall is written to the journal.

    Without --agent, --project, --team or --org the scope `global` alone is searched.
    """
    from sitoolkit.recall import explain, recall

    found = recall(ws, query, reader, k, budget, as_of=as_of)
    if as_json:
        value = found.to_json()
        if parts:
            value["passed_over"] = explain(ws, found.id)["passed_over"]
        emit(value, True)
        return
    note(
        f"searched {', '.join(found.scopes)}; {len(found.items)} memories, {found.tokens} tokens; {found.id}"
    )
    if found.abstained:
        note(f"nothing recalled: {found.reason}")
    emit(found, False, _explained(found, explain(ws, found.id)["passed_over"]) if parts else found.text)


def _explained(found: Recall, passed_over: list[dict[str, str]]) -> str:
    lines = []
    for item in found.items:
        numbers = " ".join(f"{name} {value:.3f}" for name, value in item.parts.items())
        lines.append(f"{item.rank}. {item.slot}  {item.memory_id}  {item.scope}  score {item.score:.3f}")
        lines.append(f"   {' '.join(item.text.split())[:160]}")
        lines.append(f"   {numbers}")
        lines.append(f"   {item.why}; evidence {len(item.evidence)}")
    if passed_over:
        lines.append("passed over:")
        lines += [f"   {passed['memory_id']}  {passed['why']}" for passed in passed_over]
    return "\n".join(lines)


@verb("explain", examples="sitoolkit explain jrn_0123456789abcdef01234567")
@click.argument("recall_id")
@with_workspace
@json_option
def explain_command(ws: Workspace, recall_id: str, as_json: bool) -> None:
    """The journal's record of a recall: who asked what, what came with which score, what was passed over and why."""
    from sitoolkit.recall import explain

    emit(explain(ws, recall_id), as_json, _record_text)


def _record_text(record: dict[str, Any]) -> str:
    lines = [
        f"{record['id']}  {record['at']}",
        f"query     {record['query']}",
        f"searched  {', '.join(record['scopes'])}  k {record['k']}  budget {record['budget']}  embedder {record['embedder']}",
    ]
    if record["abstained"]:
        lines.append(f"abstained {record['reason']}")
    for item in record["items"]:
        numbers = " ".join(f"{name} {value:.3f}" for name, value in item["parts"].items())
        lines.append(
            f"{item['rank']}. {item['slot']}  {item['memory_id']}  {item['scope']}  score {item['score']:.3f}"
        )
        lines.append(f"   {numbers}")
        lines.append(f"   {item['why']}")
    lines += [f"passed over {passed['memory_id']}  {passed['why']}" for passed in record["passed_over"]]
    return "\n".join(lines)


@verb("who-saw", examples="sitoolkit who-saw mem_0123456789abcdef01234567 --json")
@click.argument("memory_id")
@with_workspace
@json_option
def who_saw_command(ws: Workspace, memory_id: str, as_json: bool) -> None:
    """Every recall that showed a memory: when, to whom, for which question."""
    from sitoolkit.recall import who_saw

    emit(who_saw(ws, memory_id), as_json, lambda seen: _seen_text(seen) or f"no recall showed {memory_id}")


def _seen_text(seen: list[dict[str, Any]]) -> str:
    lines = []
    for one in seen:
        who = " ".join(f"{name}={value}" for name, value in one["reader"].items() if value) or "global"
        lines.append(f"{one['at']}  {one['recall_id']}  {who}  rank {one['rank']}  {one['query']}")
    return "\n".join(lines)
