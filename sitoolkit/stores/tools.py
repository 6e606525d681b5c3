"""The tool library: a folder a tool, with a manifest, its code, its acceptance tests and everything that happened to it.

    tools/NAME/manifest.json      what the tool is now: description, schemas, status, version, evidence
    tools/NAME/history.jsonl      every change of status, append-only
    tools/NAME/uses.jsonl         every use: outcome, seconds, what the confinement enforced
    tools/NAME/vN/tool.py         the code of version N; a new version is a new folder, nothing is overwritten
    tools/NAME/vN/tests.json      its acceptance tests as data
    tools/NAME/vN/test_tool.py    the same as code

A version is built in a hidden folder and renamed into place; the manifest is replaced last. A stop in between leaves the
library as it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sitoolkit.errors import NotFoundError, ToolFailed, ToolRefused
from sitoolkit.records import Clock, Record, UtcTime, digest, iso, utc_now
from sitoolkit.sandbox import ConfinedRun, HostServices, Limits, run_confined
from sitoolkit.schema import mismatch
from sitoolkit.settings import Settings
from sitoolkit.stores.log import AppendLog, read_records

__all__ = ["STABLE_AFTER_USES", "ToolLibrary", "ToolManifest", "ToolStatus", "ToolUse"]

_Records = list[dict[str, Any]]  # the class below has a method named list
_Manifests = list["ToolManifest"]
_Uses = list["ToolUse"]
ToolStatus = Literal["proposed", "probationary", "stable", "retired"]
STABLE_AFTER_USES = 2  # the paper: probationary turns stable after two more successful uses
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class ToolManifest(Record):
    """What a tool is: everything but its code and its tests."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    status: ToolStatus
    version: int
    author: str
    wraps: str = ""  # the tool of the agent that it stands in front of
    failure_mode: str = ""
    recipe: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    allowed_imports: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    sha256: str = ""  # of tool.py
    created_at: UtcTime
    updated_at: UtcTime
    run_id: str = ""


class ToolUse(Record):
    """One use of a tool."""

    at: UtcTime
    version: int
    outcome: str
    detail: str = ""
    seconds: float = 0.0
    args_digest: str = ""
    confinement: dict[str, str] = Field(default_factory=dict)


class ToolLibrary:
    """All tools of a workspace.

    >>> library = ToolLibrary(Path("tools"))           # doctest: +SKIP
    >>> [tool.name for tool in library.list()]         # doctest: +SKIP

    Args:
        root: folder that holds a folder a tool; made at the first write.
        settings: time and memory that a tool may use.
        clock: tells the time of changes.
    """

    def __init__(self, root: Path, *, settings: Settings | None = None, clock: Clock = utc_now) -> None:
        self.root = root
        self._settings = (settings or Settings()).tools
        self._clock = clock

    # ------------------------------------------------------------ reading

    def list(self, *statuses: ToolStatus) -> _Manifests:
        """Manifests in order of name; those of the given statuses, or all."""
        found = [self.get(name) for name in self._names()]
        return [tool for tool in found if not statuses or tool.status in statuses]

    def _names(self) -> Iterator[str]:
        if not self.root.is_dir():
            return
        for folder in sorted(self.root.iterdir()):
            if _NAME.fullmatch(folder.name) and (folder / "manifest.json").is_file():
                yield folder.name

    def get(self, name: str) -> ToolManifest:
        """The manifest of a tool.

        Raises:
            NotFoundError: there is no such tool.
        """
        file = self._folder(name) / "manifest.json"
        if not file.is_file():
            known = ", ".join(self._names()) or "none yet"
            raise NotFoundError(f"no tool {name!r} in {self.root}; there are: {known}")
        return ToolManifest.model_validate_json(file.read_bytes())

    def source(self, name: str, version: int | None = None) -> str:
        """The code of a tool, checked against the digest in its manifest.

        Raises:
            ToolRefused: the file is not what was approved.
        """
        tool = self.get(name)
        text = (self._version_folder(name, version or tool.version) / "tool.py").read_text(encoding="utf-8")
        if (version in (None, tool.version)) and digest(text) != tool.sha256:
            raise ToolRefused(
                f"tool {name!r} was changed on disk after it was added; build it again or retire it"
            )
        return text

    def tests(self, name: str) -> _Records:
        """The acceptance tests of a tool as data."""
        tool = self.get(name)
        cases: _Records = json.loads((self._version_folder(name, tool.version) / "tests.json").read_bytes())
        return cases

    def history(self, name: str) -> _Records:
        """Every change of a tool's status and version, oldest first."""
        self.get(name)
        return _read(self._folder(name) / "history.jsonl")

    def uses(self, name: str) -> _Uses:
        """Every use of a tool, oldest first."""
        self.get(name)
        return [ToolUse.model_validate(entry) for entry in _read(self._folder(name) / "uses.jsonl")]

    def schemas(self) -> _Records:
        """The loaded tools (probationary and stable) as a tool list for an agent, in the OpenAI shape."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in self.list("probationary", "stable")
        ]

    def prompt_manifest(self) -> str:
        """The loaded tools as lines of text for a prompt: name, status, what it does."""
        return "\n".join(
            f"- {tool.name} ({tool.status}): {tool.description}"
            for tool in self.list("probationary", "stable")
        )

    # ------------------------------------------------------------ changing

    def add(
        self,
        manifest: ToolManifest,
        source: str,
        tests: Sequence[Mapping[str, Any]],
        *,
        by: str,
        reason: str,
    ) -> ToolManifest:
        """Add a tool, or a new version of one, whole or not at all.

        Returns:
            The manifest as it stands: version, digest and times are the library's.

        Raises:
            ToolRefused: the name is not one that the library takes.
        """
        if not _NAME.fullmatch(manifest.name):
            raise ToolRefused(f"not a tool name: {manifest.name!r}; use lower-case letters, digits and _")
        folder = self._folder(manifest.name)
        folder.mkdir(parents=True, exist_ok=True)
        last = max((int(path.name[1:]) for path in folder.glob("v*") if path.name[1:].isdigit()), default=0)
        now = self._clock()
        tool = manifest.model_copy(update={"version": last + 1, "sha256": digest(source), "updated_at": now})
        staging = folder / f".building-{os.getpid()}-{last + 1}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            (staging / "tool.py").write_text(source, encoding="utf-8")
            (staging / "tests.json").write_text(
                json.dumps([*tests], indent=1, sort_keys=True), encoding="utf-8"
            )
            (staging / "test_tool.py").write_text(_TEST_FILE, encoding="utf-8")
            staging.rename(self._version_folder(tool.name, tool.version))
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        self._put(tool)
        self._note(tool, by, reason, now)
        return tool

    def set_status(self, name: str, status: ToolStatus, *, by: str, reason: str) -> ToolManifest:
        """Change a tool's status; the code stays readable whatever the status."""
        now = self._clock()
        tool = self.get(name).model_copy(update={"status": status, "updated_at": now})
        self._put(tool)
        self._note(tool, by, reason, now)
        return tool

    def restore(self, manifest: ToolManifest | None, name: str, *, by: str, reason: str) -> None:
        """Put a tool back to an earlier manifest; `None`: it was not there, so it is retired and kept readable."""
        if manifest is None:
            self.set_status(name, "retired", by=by, reason=reason)
            return
        self._put(manifest)
        self._note(manifest, by, reason, self._clock())

    # ------------------------------------------------------------ using

    def run(
        self, name: str, args: Any, *, host: HostServices | None = None, limits: Limits | None = None
    ) -> Any:
        """Run a tool in a fresh confined process; arguments and result are checked against its schemas.

        The use is written down, and a probationary tool that has had `STABLE_AFTER_USES` more successes turns stable.

        Raises:
            ToolRefused: the tool is proposed or retired, or the arguments do not fit its schema.
            ToolFailed: the run failed, or its result does not fit its schema.
        """
        tool = self.get(name)
        if tool.status not in ("probationary", "stable"):
            raise ToolRefused(f"tool {name!r} is {tool.status}; only probationary and stable tools run")
        wrong = mismatch(args, tool.input_schema)
        if wrong:
            raise ToolRefused(f"arguments of {name!r}: {wrong}")
        done = run_confined(
            self.source(name),
            args,
            host=host,
            limits=limits or Limits(seconds=self._settings.seconds, memory_mb=self._settings.memory_mb),
            allowed_imports=tool.allowed_imports,
        )
        wrong = mismatch(done.value, tool.output_schema) if done.outcome == "ok" else None
        outcome = "invalid" if wrong else done.outcome
        self.record_use(name, done, outcome, wrong or done.detail, args)
        if outcome != "ok":
            raise ToolFailed(f"tool {name!r} ended as {outcome}: {wrong or done.detail}")
        return done.value

    def record_use(self, name: str, done: ConfinedRun, outcome: str, detail: str, args: Any) -> None:
        """Write one use down and promote the tool when it has earned it."""
        tool = self.get(name)
        use = ToolUse(
            at=self._clock(), version=tool.version, outcome=outcome, detail=detail[:500], seconds=round(done.seconds, 4),
            args_digest=digest(args), confinement=done.confinement,
        )  # fmt: skip
        AppendLog(self._folder(name) / "uses.jsonl").append(use.to_json())
        if tool.status == "probationary" and outcome == "ok":
            good = sum(entry.outcome == "ok" and entry.version == tool.version for entry in self.uses(name))
            if good >= STABLE_AFTER_USES:
                self.set_status(name, "stable", by="sitoolkit", reason=f"{good} successful uses")

    # ------------------------------------------------------------ files

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise NotFoundError(f"not a tool name: {name[:80]!r}")
        return self.root / name

    def _version_folder(self, name: str, version: int) -> Path:
        return self._folder(name) / f"v{version}"

    def _put(self, tool: ToolManifest) -> None:
        file = self._folder(tool.name) / "manifest.json"
        fresh = file.with_name(f".manifest-{os.getpid()}.json")
        with fresh.open("w", encoding="utf-8") as out:
            json.dump(tool.to_json(), out, indent=1, sort_keys=True)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)

    def _note(self, tool: ToolManifest, by: str, reason: str, at: datetime) -> None:
        AppendLog(self._folder(tool.name) / "history.jsonl").append(
            {
                "at": iso(at),
                "status": tool.status,
                "version": tool.version,
                "by": by,
                "reason": reason,
                "sha256": tool.sha256,
            }
        )


def _read(file: Path) -> list[dict[str, Any]]:
    return [*read_records(file)] if file.is_file() else []


_TEST_FILE = '''"""Acceptance tests of this tool; the cases lie beside it in tests.json. Run: pytest test_tool.py"""

import json
from pathlib import Path

import pytest

from sitoolkit.loops.toolsmith import replay_case

HERE = Path(__file__).parent
CASES = json.loads((HERE / "tests.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_acceptance(case):
    verdict = replay_case((HERE / "tool.py").read_text(encoding="utf-8"), case)
    assert verdict.passed, verdict.detail
'''
