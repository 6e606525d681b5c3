"""What a person should look at: comes in what the report gathered, goes out findings with the next command to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sitoolkit.records import RunManifest, Status

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.views.report import Facts

__all__ = ["Finding", "attention", "changed_tools"]

_GOOD = ("ok", "nothing_to_do", "skipped")
# Counts by which a stage says that it worked on something, and those that say something came of it.
_DID = {
    "01_capture_replay": ("calls", ("captured", "new_calls", "repeated")),
    "02_pattern_distillation": (
        "groups_processed",
        ("patterns_written", "patterns_unchanged", "patterns_superseded"),
    ),
}


class Finding(NamedTuple):
    """One thing to look at."""

    severity: Literal["bad", "warn"]
    text: str
    fix: str = ""


def attention(facts: Facts, manifest: RunManifest | None, children: Sequence[RunManifest]) -> list[Finding]:
    """Findings, the worst first."""
    found = [*_runs(manifest, children), *_stages(children), *_stores(facts), *_memories(facts)]
    return sorted(found, key=lambda finding: finding.severity != "bad")


def _runs(manifest: RunManifest | None, children: Sequence[RunManifest]) -> list[Finding]:
    found = [
        Finding(
            "bad",
            f"{Path(child.notebook).stem} ended as {child.status}"
            + (f": {child.error.get('ename')}: {child.error.get('evalue')}" if child.error else ""),
            f"sitoolkit runs show {child.run_id}",
        )
        for child in children
        if child.status not in _GOOD
    ]
    if manifest is None:
        return found
    check = manifest.counts.get("recall_check") or {}
    if check.get("recalled") is False:
        found.append(
            Finding(
                "bad",
                f"a memory written tonight did not come back when it was asked for: {check.get('memory_id')}",
                f"sitoolkit explain {check.get('recall_id')}",
            )
        )
    return found


def _stages(children: Sequence[RunManifest]) -> list[Finding]:
    """Stages that had work and to which nothing succeeded, and items that a stage could not do."""
    found = []
    for child in children:
        stem, counts = Path(child.notebook).stem, child.counts
        work, results = _DID.get(stem, ("", ()))
        if counts.get(work) and not any(_total(counts.get(name)) for name in results):
            found.append(
                Finding(
                    "bad",
                    f"{stem} had {counts[work]:,} {work.replace('_', ' ')} and nothing came of it",
                    f"sitoolkit runs show {child.run_id}",
                )
            )
        for name in ("failed", "patterns_failed", "blocked"):
            captured = counts.get("captured")
            number = counts.get(name) or (captured.get(name) if isinstance(captured, Mapping) else 0)
            if number:
                found.append(
                    Finding(
                        "warn",
                        f"{stem}: {number:,} {name.replace('_', ' ')}",
                        f"sitoolkit runs show {child.run_id}",
                    )
                )
        if counts.get("set_aside"):
            found.append(
                Finding(
                    "warn",
                    f"{stem}: {_total(counts['set_aside']):,} records of transcripts were set aside",
                    "sitoolkit read PATH --json",
                )
            )
        if counts.get("claims_dropped"):
            found.append(
                Finding(
                    "warn",
                    f"{stem}: {counts['claims_dropped']:,} wordings of a model said more than their evidence and were dropped",
                )
            )
    return found


def _total(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_total(item) for item in value.values())
    if isinstance(value, list | tuple):
        return len(value)
    return int(value) if isinstance(value, int | float) else 0


def _stores(facts: Facts) -> list[Finding]:
    from sitoolkit.runs import check_runs

    found = [
        Finding("bad", check["detail"], check["fix"])
        for check in check_runs(facts.ws.path, facts.now)
        if not check["ok"] and check["check"] in ("crashed", "manifest")
    ]
    verdict = facts.ws.journal.verify()
    if not verdict.ok:
        found.append(
            Finding(
                "bad",
                f"the journal's chain is broken at {verdict.broken}: {verdict.reason}",
                "sitoolkit doctor",
            )
        )
    found += [
        Finding("bad", f"memory: {fault}", "sitoolkit memory rebuild")
        for fault in list(facts.ws.memory.check())[:3]
    ]
    failures = list(facts.ws.journal.events("optimize_failed", since=facts.since))
    if failures:
        found.append(
            Finding(
                "warn",
                f"compaction failed {len(failures)} times: {failures[-1].data.get('reason', '')}",
                "sitoolkit doctor",
            )
        )
    return found


def _memories(facts: Facts) -> list[Finding]:
    active = facts.active
    settled = [row for row in active if row.created_at and facts.now - row.created_at > timedelta(days=14)]
    never = [row for row in settled if row.id not in facts.access]
    found = []
    if never and len(never) > len(settled) / 2:
        found.append(
            Finding(
                "warn",
                f"{len(never):,} of {len(settled):,} memories older than two weeks were never recalled",
                "sitoolkit decay --dry-run",
            )
        )
    ends = [
        row
        for row in active
        if row.expires_at and facts.now <= row.expires_at <= facts.now + timedelta(days=3)
    ]
    if ends:
        found.append(
            Finding("warn", f"{len(ends):,} memories expire within three days", "sitoolkit decay --dry-run")
        )
    quarantined = [row for row in facts.memories if row.status == Status.QUARANTINED]
    if quarantined:
        found.append(
            Finding(
                "warn",
                f"{len(quarantined):,} memories are quarantined",
                "sitoolkit memory list --status quarantined",
            )
        )
    stale = [row for row in facts.proposals if row.state in ("stale", "failed")]
    if stale:
        found.append(
            Finding(
                "warn", f"{len(stale):,} proposals are stale or failed when applied", "sitoolkit review list"
            )
        )
    return found


def changed_tools(
    calls: pl.DataFrame, *, days: int = 7, before_days: int = 28, at_least: int = 5
) -> list[dict[str, Any]]:
    """Failure rates by tool, the newest days against those before.

    Args:
        calls: rows with `tool, outcome, happened_at`.
        days: the new span, back from the newest call.
        before_days: the span before it.
        at_least: calls that a tool must have in both.

    Returns:
        `tool, verdict (better, worse, no clear change), before, now`, the biggest change first.
    """
    import polars as pl

    from sitoolkit.views.charts.failures import wilson

    dated = calls.filter(
        pl.col("happened_at").is_not_null() & pl.col("outcome").is_in(["success", "failure", "timeout"])
    )
    if dated.is_empty():
        return []
    newest = dated["happened_at"].max()
    start = pl.lit(newest) - pl.duration(days=days)
    spans = (
        dated.filter(pl.col("happened_at") > pl.lit(newest) - pl.duration(days=days + before_days))
        .with_columns(
            (pl.col("happened_at") > start).alias("now"), (pl.col("outcome") != "success").alias("failed")
        )
        .group_by("tool", "now")
        .agg(pl.len().alias("calls"), pl.col("failed").sum().alias("failed"))
    )
    by_tool: dict[str, dict[bool, tuple[int, int]]] = {}
    for tool, now, n, failed in spans.iter_rows():
        by_tool.setdefault(tool, {})[now] = (failed, n)
    rows = []
    for tool, counted in by_tool.items():
        if len(counted) < 2 or min(n for _, n in counted.values()) < at_least:
            continue
        (k0, n0), (k1, n1) = counted[False], counted[True]
        low0, high0 = wilson(k0, n0)
        low1, high1 = wilson(k1, n1)
        verdict = "better" if high1 < low0 else "worse" if low1 > high0 else "no clear change"
        rows.append(
            {
                "tool": tool,
                "verdict": verdict,
                "before": f"{k0 / n0:.0%} of {n0:,}",
                "now": f"{k1 / n1:.0%} of {n1:,}",
                "change": k1 / n1 - k0 / n0,
            }
        )
    return sorted(rows, key=lambda row: (-abs(float(row["change"])), str(row["tool"])))
