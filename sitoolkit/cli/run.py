"""`sitoolkit run` and `sitoolkit runs`: comes in a notebook and its parameters or a run's id, goes out a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sitoolkit.cli.common import NAME_VALUE, emit, group, json_option, note, verb, with_workspace

if TYPE_CHECKING:
    from sitoolkit.records import RunManifest
    from sitoolkit.workspace import Workspace

__all__ = ["end_with", "manifest_text", "run", "runs"]


@verb(
    "run",
    examples="""
    sitoolkit run 02_pattern_distillation
    sitoolkit run distillation -p min_samples=3 -p scope=agent:ops
    sitoolkit run my_analysis.ipynb --deadline 600 --json
    sitoolkit run 02_pattern_distillation --parameters
    """,
)
@click.argument("notebook")
@with_workspace
@click.option(
    "-p", "given", type=NAME_VALUE, multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated."
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the whole run after this.",
)
@click.option("--force", is_flag=True, help="Run even when nothing has changed since it last ended well.")
@click.option("--parameters", is_flag=True, help="Show the notebook's parameters and run nothing.")
@json_option
def run(
    notebook: str,
    ws: Workspace,
    given: tuple[tuple[str, str], ...],
    deadline: float | None,
    force: bool,
    parameters: bool,
    as_json: bool,
) -> None:
    """Run NOTEBOOK (a path, or the name of a shipped one) headless, in a folder of its own below runs/.

    Parameters are checked before anything starts.
    """
    from dataclasses import asdict

    from sitoolkit.nightly import find_notebook, run_notebook
    from sitoolkit.parameters import declared_parameters

    if parameters:
        declared = [asdict(each) for each in declared_parameters(find_notebook(notebook)).values()]
        emit(
            declared,
            as_json,
            lambda rows: "\n".join(
                f"{r['name']}: {r['type']} = {r['default']}\n    {r['help']}" for r in rows
            ),
        )
        return
    end_with(run_notebook(ws, notebook, dict(given), deadline_s=deadline, force=force), as_json)


def end_with(manifest: RunManifest, as_json: bool) -> None:
    """Print a manifest and end with its exit code."""
    emit(manifest, as_json, manifest_text)
    if manifest.exit_code:
        if manifest.error:
            note(f"sitoolkit: {manifest.error.get('ename')}: {manifest.error.get('evalue')}")
        note(
            f"sitoolkit: the run ended as {manifest.status}; `sitoolkit runs show {manifest.run_id}` shows all of it"
        )
        raise click.exceptions.Exit(manifest.exit_code)


def manifest_text(manifest: RunManifest) -> str:
    """A manifest for a person."""
    took = f" in {manifest.duration_s:.1f} s" if manifest.duration_s is not None else ""
    lines = [f"{manifest.run_id}  {manifest.status}{took}"]
    lines += [f"  {name}: {_short(value)}" for name, value in manifest.parameters.items()]
    lines += [f"  {name.replace('_', ' ')}: {_short(value)}" for name, value in manifest.counts.items()]
    if manifest.error:
        where = f" in cell {manifest.error['cell_index']}" if "cell_index" in manifest.error else ""
        lines.append(f"  error{where}: {manifest.error.get('ename')}: {manifest.error.get('evalue')}")
    lines += [f"  note: {text}" for text in manifest.notes]
    lines += [
        f"  {artefact['path']}"
        for artefact in manifest.artefacts
        if not str(artefact["name"]).startswith("log")
    ]
    return "\n".join(lines)


def _short(value: Any) -> str:
    from sitoolkit.cli.common import json_text

    text = value if isinstance(value, str) else json_text(value)
    return text if len(text) <= 100 else text[:99] + "…"


runs = group(
    "runs",
    help="Past runs: list them, show one, prune old ones, look for crashed ones.",
    examples="""
    sitoolkit runs list
    sitoolkit runs show 20261201T0200
    sitoolkit runs prune --dry-run
    sitoolkit runs doctor
    """,
)


@runs.command(
    "list", examples="sitoolkit runs list --status failed\nsitoolkit runs list --notebook nightly --json"
)
@with_workspace
@click.option(
    "--status",
    help="Only runs that ended so: ok, nothing_to_do, failed, timeout, interrupted, skipped, running …",
)
@click.option("--notebook", help="Only runs of this notebook; `nightly` for whole nights.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="At most so many, newest first.",
)
@json_option
def list_(ws: Workspace, status: str | None, notebook: str | None, limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    from sitoolkit.records import iso
    from sitoolkit.runs import list_runs

    found = list_runs(ws.path, status=status, notebook=notebook)[:limit]
    emit(
        found,
        as_json,
        lambda rows: (
            "\n".join(
                f"{row.status:<14} {row.duration_s if row.duration_s is not None else '-':>8} s  {iso(row.started_at)}  {row.run_id}"
                for row in rows
            )
            or "no runs yet; `sitoolkit nightly` makes the first"
        ),
    )


@runs.command("show", examples="sitoolkit runs show 20261201T020000Z-nightly-3f9c2a --json")
@click.argument("run_id")
@with_workspace
@json_option
def show(run_id: str, ws: Workspace, as_json: bool) -> None:
    """Show one run's manifest; RUN_ID may be cut as long as it is clear."""
    from sitoolkit.runs import find_run

    emit(find_run(ws.path, run_id), as_json, manifest_text)


@runs.command("prune", examples="sitoolkit runs prune --keep-days 30 --keep-failed-days 90 --dry-run")
@with_workspace
@click.option(
    "--keep-days", type=click.FloatRange(min=0), help="Keep good runs so many days; else the setting (30)."
)
@click.option(
    "--keep-failed-days",
    type=click.FloatRange(min=0),
    help="Keep failed runs so many days; else the setting (90).",
)
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@json_option
def prune(
    ws: Workspace, keep_days: float | None, keep_failed_days: float | None, dry_run: bool, as_json: bool
) -> None:
    """Remove the folders of old runs. The last good night is kept whatever its age."""
    from sitoolkit.runs import prune_runs

    settings = ws.settings.nightly
    gone = prune_runs(
        ws.path,
        ws.clock(),
        keep_days=settings.keep_days if keep_days is None else keep_days,
        keep_failed_days=settings.keep_failed_days if keep_failed_days is None else keep_failed_days,
        dry_run=dry_run,
    )
    total = sum(row["bytes"] for row in gone) / 1e6
    emit(
        {"runs": gone, "dry_run": dry_run},
        as_json,
        "\n".join(f"{row['run_id']}  {row['status']}" for row in gone)
        + f"\n{len(gone)} runs, {total:.1f} MB {'would be removed' if dry_run else 'removed'}".lstrip("\n"),
    )


@runs.command("doctor", examples="sitoolkit runs doctor || mail -s 'the night failed' me@example.org")
@with_workspace
@click.option(
    "--max-age-hours",
    type=click.FloatRange(min=0),
    help="How old the last good night may be; else the setting (36).",
)
@json_option
def doctor(ws: Workspace, max_age_hours: float | None, as_json: bool) -> None:
    """Say which runs died and whether the last night is good; exit code 1 when something is wrong."""
    from sitoolkit.runs import check_runs

    hours = ws.settings.nightly.max_age_hours if max_age_hours is None else max_age_hours
    findings = check_runs(ws.path, ws.clock(), max_age_hours=hours)
    emit(
        {"checks": findings, "ok": all(each["ok"] for each in findings)},
        as_json,
        lambda _: "\n".join(
            f"{'ok ' if each['ok'] else 'BAD'}  {each['check']}: {each['detail']}"
            + (f"\n     try: {each['fix']}" if each["fix"] else "")
            for each in findings
        ),
    )
    if not all(each["ok"] for each in findings):
        raise click.exceptions.Exit(1)
