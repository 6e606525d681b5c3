"""`sitoolkit notebooks`: goes out the shipped notebooks, as a list or as copies that are yours to change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from sitoolkit.cli.common import emit, group, json_option

__all__ = ["notebooks"]

notebooks = group(
    "notebooks",
    help="The shipped notebooks: list them, or copy them to a folder of yours.",
    examples="""
    sitoolkit notebooks copy my-analysis
    jupyter lab my-analysis
    """,
)


@notebooks.command("list", examples="sitoolkit notebooks list")
@json_option
def list_(as_json: bool) -> None:
    """List the shipped notebooks with their first sentence."""
    from sitoolkit.shipped import shipped

    rows = [
        {"name": file.stem, "path": str(file), "about": _first_sentence(file)}
        for file in sorted(shipped("notebooks").glob("*.ipynb"))
    ]
    emit(rows, as_json, lambda found: "\n".join(f"{row['name']:<26} {row['about']}" for row in found))


def _first_sentence(file: Path) -> str:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    lines = "".join(cells[0]["source"]).splitlines() if cells else []
    return next((line.strip() for line in lines if line.strip() and not line.startswith(("#", "!", "<"))), "")


@notebooks.command("copy", examples="sitoolkit notebooks copy my-analysis && jupyter lab my-analysis")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace files of the same name.")
@json_option
def copy(folder: Path, overwrite: bool, as_json: bool) -> None:
    """Copy the notebooks and their pictures to FOLDER; a file that is there already is kept unless told otherwise."""
    from sitoolkit.shipped import shipped

    source = shipped("notebooks")
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for file in sorted(
        each for each in source.rglob("*") if each.is_file() and ".ipynb_checkpoints" not in each.parts
    ):
        target = folder / file.relative_to(source)
        kept = target.exists() and not overwrite
        if not kept:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        done.append({"file": str(target), "result": "kept" if kept else "copied"})
    emit(
        done,
        as_json,
        lambda rows: (
            "\n".join(f"{row['result']:<7} {row['file']}" for row in rows) + f"\nnow: jupyter lab {folder}"
        ),
    )
