"""One folder with its stores opened: a path comes in; notebooks, loops and the command line hold what goes out.

Nothing is opened or written before it is used. A `run` names what one invocation of a verb did, so that it can be looked up
and undone.
"""

from __future__ import annotations

import contextvars
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitoolkit.errors import ConfigError
from sitoolkit.records import Clock, iso, parse_time, utc_now
from sitoolkit.settings import Settings, load_settings, workspace_path
from sitoolkit.stores.journal import Journal
from sitoolkit.stores.lock import writer_lock
from sitoolkit.stores.log import decode, encode, explain_disk
from sitoolkit.stores.proposals import ProposalLog
from sitoolkit.stores.telemetry import Telemetry

if TYPE_CHECKING:
    import polars as pl

    from sitoolkit.models.chat import ChatModel
    from sitoolkit.models.embedders import Embedder
    from sitoolkit.plugins import PluginFault, SelfImprovementPlugin
    from sitoolkit.redaction import Redactor
    from sitoolkit.stores.memory import MemoryStore
    from sitoolkit.stores.memory_rebuild import ReembedReport
    from sitoolkit.stores.tools import ToolLibrary

__all__ = ["Run", "Workspace"]

log = logging.getLogger(__name__)

_MARK = "workspace.json"
_run: contextvars.ContextVar[Run | None] = contextvars.ContextVar("sitoolkit_run", default=None)


@dataclass(frozen=True)
class Run:
    """One invocation of a verb: what it writes carries its id."""

    id: str
    verb: str
    folder: Path
    started_at: datetime


def _clock_from_environment() -> Clock:
    """The clock, or the instant that `SITOOLKIT_NOW` fixes (for runs that must be the same twice)."""
    fixed = parse_time(os.environ.get("SITOOLKIT_NOW"))
    if fixed is None:
        return utc_now
    return lambda: fixed


class Workspace:
    """A folder with its stores.

    >>> ws = Workspace("/tmp/example-workspace")
    >>> with ws.run("note", topic="disk") as run:
    ...     ws.journal.append("note", {"text": "checked"}, run.id).startswith("jrn_")
    True

    Args:
        path: the folder; else `SITOOLKIT_HOME`, else `.sitoolkit` in the current folder. Made at the first write.
        settings: instead of those of `sitoolkit.toml` and the environment.
        clock: the present; fixed by `SITOOLKIT_NOW` when that is set.
        embedder: an open embedder instead of the one that settings name.
        chat: an open chat model instead of the one that settings name.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Attributes:
        path: the folder.
        settings: every path and threshold.
        telemetry: calls, sessions, signals, user turns.
        journal: what was written, recalled and decided.
        proposals: what waits for a person.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        embedder: Embedder | None = None,
        chat: ChatModel | None = None,
    ) -> None:
        self.path = workspace_path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file; a workspace is a folder")
        self.settings = settings or load_settings(self.path)
        self.clock: Clock = clock or _clock_from_environment()
        store = self.settings.store
        self.telemetry = Telemetry(
            self.path / "telemetry",
            clock=self.clock,
            fsync=store.fsync,
            seal_after_days=store.seal_after_days,
            lock_timeout_s=store.lock_timeout_s,
        )
        self.journal = Journal(self.path / "journal", clock=self.clock, fsync=store.fsync)
        self.proposals = ProposalLog(
            self.path / "proposals",
            clock=self.clock,
            fsync=store.fsync,
            lock_timeout_s=store.lock_timeout_s,
        )
        self._given_embedder = embedder
        self._given_chat = chat
        self._reported: set[tuple[str, str | None]] = set()

    def __repr__(self) -> str:
        return f"Workspace({str(self.path)!r})"

    # ------------------------------------------------------------ what opens when it is used

    @cached_property
    def redactor(self) -> Redactor:
        """Removes secrets by the workspace's settings."""
        from sitoolkit.redaction import Redactor

        return Redactor(self.settings)

    @cached_property
    def memory(self) -> MemoryStore:
        """The memory store."""
        from sitoolkit.stores.memory import MemoryStore

        return MemoryStore(
            self.path / "memory",
            self.journal,
            embedder=lambda: self.embedder,
            settings=self.settings,
            clock=self.clock,
            lock_folder=self.path,
            redact=lambda value: self.redactor.value(value)[0],
        )

    @cached_property
    def tools(self) -> ToolLibrary:
        """The tool library."""
        from sitoolkit.stores.tools import ToolLibrary

        return ToolLibrary(self.path / "tools", clock=self.clock)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder: the one given, else the one that settings name, else the one this workspace began with.

        With `models.embedder = "auto"` the best one installed is taken when the workspace first needs it, and recorded.
        """
        if self._given_embedder is not None:
            return self._given_embedder
        from sitoolkit.models.embedders import open_embedder

        name = self.settings.models.embedder
        if name != "auto":
            return open_embedder(name, self.settings)
        recorded = self.facts().get("embedder")
        if isinstance(recorded, str) and recorded:
            return open_embedder(recorded, self.settings)
        embedder = open_embedder("auto", self.settings)
        self.record_fact("embedder", embedder.name)
        return embedder

    def reembed(self, name: str | None = None) -> ReembedReport:
        """Make all vectors anew with another embedder, and keep to it from then on.

        Args:
            name: as in `models.embedder`; else what settings name, else the best one installed now.

        Raises:
            ConfigError: settings name another embedder, which would refuse the new table.
            ModelUnavailable: the embedder is not installed or does not answer.
        """
        from sitoolkit.models.embedders import open_embedder

        configured = self.settings.models.embedder
        if name is not None and configured not in ("auto", name):
            raise ConfigError(
                f"models.embedder is {configured!r} and would refuse vectors of {name!r}; set it to {name!r} or to 'auto' first"
            )
        wanted = name or configured
        if self._given_embedder is not None and name is None:
            embedder = self._given_embedder
        else:
            embedder = open_embedder(wanted, self.settings)
        report = self.memory.reembed(embedder)
        self.record_fact("embedder", embedder.name)
        if self._given_embedder is None:
            self.__dict__["embedder"] = embedder
        return report

    @cached_property
    def chat(self) -> ChatModel:
        """The chat model: the one given, else the one that settings name; `template` when there is none."""
        if self._given_chat is not None:
            return self._given_chat
        from sitoolkit.models.chat import Exchange, open_chat

        def keep(exchange: Exchange) -> None:
            text, _ = self.redactor.value(vars(exchange))
            self.journal.append("model_exchange", text, self.run_id or None)

        return open_chat(self.settings.models, keep if self.settings.models.keep_prompts else None)

    @cached_property
    def plugins(self) -> tuple[SelfImprovementPlugin, ...]:
        """The plugins that are installed; those that do not load are reported and left out."""
        from sitoolkit.plugins import load_plugins

        plugins, faults = load_plugins()
        for fault in faults:
            self.report_plugin(fault)
        return tuple(plugins)

    def report_plugin(self, fault: PluginFault) -> None:
        """Journal and log that a plugin failed, once for each plugin and hook."""
        if (fault.plugin, fault.hook) in self._reported:
            return
        self._reported.add((fault.plugin, fault.hook))
        what = f"its hook {fault.hook} failed" if fault.hook else "it does not load"
        log.warning("plugin %s is skipped: %s: %s", fault.plugin, what, fault.error)
        said, _ = self.redactor.value(fault.to_json())
        self.journal.append("plugin_failed", said, self.run_id or None)

    # ------------------------------------------------------------ runs

    @property
    def run_id(self) -> str:
        """Id of the run in progress; empty outside of one."""
        run = _run.get()
        return run.id if run is not None and run.folder == self.path else ""

    @contextmanager
    def run(self, verb: str, **parameters: Any) -> Iterator[Run]:
        """Give what is written inside one run id; a run inside a run joins it.

        Args:
            verb: what is done, as `capture`.
            **parameters: kept in the journal, redacted.
        """
        outer = _run.get()
        if outer is not None and outer.folder == self.path:
            yield outer
            return
        now = self.clock()
        run = Run(f"run_{now:%Y%m%dT%H%M%S}_{verb}_{secrets.token_hex(3)}", verb, self.path, now)
        said, _ = self.redactor.value(_plain(parameters))
        self.journal.append("run_started", {"verb": verb, "parameters": said, "pid": os.getpid()}, run.id)
        token = _run.set(run)
        status, error = "failed", None
        try:
            yield run
            status = "ok"
        except BaseException as fault:
            status = "failed" if isinstance(fault, Exception) else "interrupted"
            error, _ = self.redactor.text(f"{type(fault).__name__}: {fault}"[:500])
            raise
        finally:
            _run.reset(token)
            self.journal.append("run_ended", {"verb": verb, "status": status, "error": error}, run.id)

    # ------------------------------------------------------------ small facts

    def facts(self) -> Mapping[str, Any]:
        """What was recorded when the workspace was made: its format and its embedder."""
        try:
            found = decode((self.path / _MARK).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def record_fact(self, name: str, value: Any) -> None:
        """Record a fact of the workspace, atomically."""
        with writer_lock(self.path, self.settings.store.lock_timeout_s, doing="record a fact"):
            facts = {"format": 1, "made_at": iso(self.clock()), **self.facts(), name: value}
            path = self.path / _MARK
            with explain_disk(path):
                partial = path.with_suffix(".partial")
                partial.write_bytes(encode(facts))
                partial.replace(path)

    def lock(self, doing: str = "write") -> Any:
        """The workspace's writer lock, as a context manager; stores take it by themselves."""
        return writer_lock(self.path, self.settings.store.lock_timeout_s, doing=doing)

    def sql(self, query: str) -> pl.DataFrame:
        """Rows of a query over `calls, sessions, memories, recalls, decisions, runs, proposals, signals, turns`.

        The query runs in a database of its own that can neither read files nor write them.

        Raises:
            ParameterError: the query is not valid; says where.
        """
        from sitoolkit.stores.sql import run_sql

        return run_sql(self, query)

    def close(self) -> None:
        """Nothing is held open between calls; here for symmetry with other stores."""

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return iso(value)
    return str(value)
