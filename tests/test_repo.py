"""The repository keeps its promises: what the README says runs, notebooks are thin, imports run down, names are exact."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import sitoolkit
from sitoolkit.parameters import declared_parameters

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PACKAGE = ROOT / "sitoolkit"

# ---------------------------------------------------------------- what the texts say is what runs

NOT_RUN = (
    "git clone",
    "make ",
    "pip install",
    "jupyter lab",
)  # the machine's business, or a server that stays


def shell_lines(page: Path) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line.split("  #")[0].rstrip() for block in blocks for line in block.splitlines() if line.strip()]
    return [line for line in lines if not line.startswith(NOT_RUN)]


def run_lines(page: Path, folder: Path) -> None:
    """Run a page's lines in one shell, in a folder with transcripts, as a reader would type them."""
    shutil.copytree(ROOT / "data" / "transcripts", folder / "transcripts")
    guides = ROOT / "guides"
    if guides.is_dir():
        shutil.copytree(guides, folder / "guides")
    lines = shell_lines(page)
    assert lines, page
    script = "set -eo pipefail\n" + "\n".join(f"echo '+' {json.dumps(line)} >&2\n{line}" for line in lines)
    bin_ = str(Path(sys.executable).parent)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SITOOLKIT_")},
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "SITOOLKIT_MODELS_EMBEDDER": "wordllama",
    }  # fmt: skip
    ended = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, f"{page.name}: {ended.stderr[-2500:]}\n{ended.stdout[-1500:]}"


@pytest.mark.notebook
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_every_command_of_the_front_door_runs(page: str, tmp_path: Path) -> None:
    run_lines(ROOT / page, tmp_path)


PAGES_WITH_COMMANDS = [page for page in DOCS if page.parent.name == "how-to" and shell_lines(page)]


@pytest.mark.notebook
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.stem)
def test_every_command_of_a_how_to_runs(page: Path, tmp_path: Path) -> None:
    run_lines(page, tmp_path)


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    env = {**os.environ, "SITOOLKIT_HOME": str(tmp_path / "ws"), "SITOOLKIT_MODELS_EMBEDDER": "hashing"}
    subprocess.run(
        [sys.executable, "-c", code + "\nassert messages[-1]['role'] == 'user'"],
        env=env,
        check=True,
        timeout=120,
    )


def test_links_and_pictures_of_the_texts_are_there() -> None:
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if (
                not target.startswith(("http://", "https://", "mailto:"))
                and not (page.parent / target).exists()
            ):
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert missing == []


@pytest.mark.parametrize("page", ["docs/reference/cli.md", "docs/reference/settings.md"])
def test_the_reference_is_what_the_code_says(page: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", page],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, f"run `make docs` and commit {page}: {ended.stdout}{ended.stderr}"


# ---------------------------------------------------------------- notebooks


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_begins_and_ends_as_promised(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cells = content["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(cells) <= 12
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for cell in code:
        source = "".join(cell["source"])
        assert len(source.splitlines()) <= 15
        kinds = {type(node) for node in ast.walk(ast.parse(source))}
        assert not kinds & {
            ast.FunctionDef,
            ast.ClassDef,
            ast.AsyncFunctionDef,
            ast.For,
            ast.While,
            ast.Try,
        }
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom | ast.Import):
                assert (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).startswith(
                    "sitoolkit"
                )
    first, last = "".join(cells[0]["source"]), "".join(cells[-1]["source"])
    assert first.startswith("# ") and re.search(r"!\[[^\]]{10,}\]\(pictures/[\w.-]+\)", first)
    assert "**Next:**" in last
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    assert tagged == [code[0]]
    assert "notebook_result" in "".join(code[-1]["source"])
    assert set(content["metadata"]) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_parameter_has_a_type_and_a_help_text(notebook: Path) -> None:
    declared = declared_parameters(notebook)
    assert declared
    for parameter in declared.values():
        assert parameter.type and len(parameter.help) > 8, parameter


# ---------------------------------------------------------------- names and imports


def modules() -> list[str]:
    files = sorted(PACKAGE.rglob("*.py"))
    names = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files
    ]
    return [name for name in names if not name.endswith("__main__") and ".sandbox.child" not in name]


@pytest.mark.parametrize("name", modules())
def test_what_a_module_offers_is_there(name: str) -> None:
    module = importlib.import_module(name)
    for offered in getattr(module, "__all__", ()):
        assert hasattr(module, offered), f"{name}.{offered}"


def test_the_face_offers_exactly_what_it_names() -> None:
    assert sitoolkit.__all__ == sorted(sitoolkit.__all__, key=lambda name: (name != "__version__", name))
    for name in sitoolkit.__all__:
        value = getattr(sitoolkit, name)
        assert not isinstance(value, type(sys)), f"{name} is a module"


# A module may import from its own floor and from those below it.
FLOORS = [
    "records errors plain naming tokens schema shipped phrases",
    "redaction secrets stable settings failures failure_patterns signatures grouping writes lexical error_texts logs.lines logs.events",
    "claims stores models logs.files logs.counts logs.report",
    "transcripts workspace plugins logs learning",
    "loops guides recall",
    "review doctor restore",
    "views notebook nightly cli",
]


def imported(node: ast.ImportFrom | ast.Import) -> set[str]:
    """The modules of sitoolkit that a statement names: `from sitoolkit import review` names `sitoolkit.review`."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name.startswith("sitoolkit")}
    if not (node.module or "").startswith("sitoolkit"):
        return set()
    package = ROOT.joinpath(*str(node.module).split("."))
    inner = {
        f"{node.module}.{alias.name}"
        for alias in node.names
        if (package / alias.name).is_dir() or (package / f"{alias.name}.py").is_file()
    }
    return inner or {str(node.module)}


def imports_of(file: Path, *, at_load: bool = False) -> set[str]:
    """What a file imports: anywhere, or only as it is loaded; imports for type checkers alone do not count."""
    found: set[str] = set()

    def look(body: list[Any]) -> None:
        for node in body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            if isinstance(node, ast.ImportFrom | ast.Import):
                found.update(imported(node))
            if at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for name in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, name, None)
                if isinstance(inner, list):
                    look(inner)

    look(ast.parse(file.read_text(encoding="utf-8")).body)
    return found


def floor_of(module: str) -> int | None:
    part = module.split(".")[1] if "." in module else ""
    inner = ".".join(module.split(".")[1:3])
    for wanted in (inner, part):
        for number, names in enumerate(FLOORS):
            if wanted in names.split():
                return number
    return None


def test_imports_run_down_only() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        mine = floor_of(name)
        if mine is None:
            continue
        for module in imports_of(file):
            theirs = floor_of(module)
            if theirs is not None and theirs > mine:
                wrong.append(f"{name} (floor {mine}) imports {module} (floor {theirs})")
    assert wrong == []


def test_no_import_goes_in_a_circle() -> None:
    graph = {}
    for file in PACKAGE.rglob("*.py"):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        graph[name] = imports_of(file, at_load=True)
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        for other in graph.get(name, ()):
            walk(other, (*path, name))
        done.add(name)

    for name in graph:
        walk(name, ())


def test_importing_costs_milliseconds() -> None:
    code = "import time; t = time.perf_counter(); import sitoolkit; print(time.perf_counter() - t)"
    best = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
    assert best < 0.150, best


# ---------------------------------------------------------------- the repository itself


def tracked() -> list[Path]:
    ended = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip("not a checkout")
    return [ROOT / name for name in ended.stdout.splitlines() if (ROOT / name).is_file()]


def test_version_license_and_changelog_are_in_step() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0" and (ROOT / "LICENSE").read_text().lstrip().startswith(
        "Apache License"
    )
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## Unreleased" in changelog or f"## {sitoolkit.__version__}" in changelog
    assert all(">=" in dependency for dependency in project["dependencies"])
    assert all("<" not in dependency for dependency in project["dependencies"])


def test_no_module_has_grown_beyond_what_fits_in_a_head() -> None:
    long = {
        file.name: lines
        for file in PACKAGE.rglob("*.py")
        if (lines := len(file.read_text().splitlines())) > 1_000
    }
    assert long == {}


def test_small_files_only() -> None:
    assert [path.name for path in tracked() if path.stat().st_size > 1_000_000] == []
