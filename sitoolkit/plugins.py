"""Plugins at the loop's boundaries: subclasses of `SelfImprovementPlugin` found by entry point come in, their hooks are called.

A plugin that fails is reported and skipped; it never stops a loop.
"""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from sitoolkit.attended import unattended
from sitoolkit.records import BINEvent, CorrectionSignal, Record, Session, ToolInvocation

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["GROUP", "HOOKS", "PluginFault", "SelfImprovementPlugin", "call_hook", "load_plugins"]

log = logging.getLogger(__name__)

GROUP = "sitoolkit.plugins"


class SelfImprovementPlugin:
    """Base class of plugins: every hook does nothing until it is overridden.

    >>> class Counter(SelfImprovementPlugin):
    ...     def on_bin_trigger(self, event):
    ...         print(event.tool)

    Register it in the `pyproject.toml` of your package:

        [project.entry-points."sitoolkit.plugins"]
        counter = "my_package:Counter"
    """

    name: str = ""  # set to the entry point's name when it is empty

    def on_tool_invocation(self, call: ToolInvocation) -> None:
        """A call was written to telemetry."""

    def on_bin_trigger(self, event: BINEvent) -> None:
        """A (tool, failure mode) reached its threshold in a session."""

    def on_correction_signal(self, signal: CorrectionSignal) -> None:
        """A user corrected the agent."""

    def on_session_end(self, session: Session) -> None:
        """A session was captured."""

    def on_tool_library_update(self, tool: Any) -> None:
        """A tool of the library was added or changed its status."""

    def generate_maintenance_proposals(self, ws: Workspace) -> list[dict[str, Any]]:
        """Propose changes: keyword arguments for `ws.proposals.propose`, each with evidence."""
        return []


HOOKS = (
    "generate_maintenance_proposals",
    "on_bin_trigger",
    "on_correction_signal",
    "on_session_end",
    "on_tool_invocation",
    "on_tool_library_update",
)


class PluginFault(Record):
    """A plugin that could not be loaded or whose hook failed."""

    plugin: str
    hook: str | None  # None: loading
    error: str


def load_plugins(
    points: tuple[EntryPoint, ...] | None = None,
) -> tuple[list[SelfImprovementPlugin], list[PluginFault]]:
    """The plugins that are installed, in order of name, and those that did not load.

    Args:
        points: entry points to load; those of the group `sitoolkit.plugins` by default.
    """
    found = entry_points(group=GROUP) if points is None else points
    plugins: list[SelfImprovementPlugin] = []
    faults: list[PluginFault] = []
    for point in sorted(found, key=lambda one: (one.name, one.value)):
        try:
            made = point.load()
            plugin = made() if isinstance(made, type) else made
            if not isinstance(plugin, SelfImprovementPlugin):
                raise TypeError(f"{point.value} is no SelfImprovementPlugin")
        except Exception as fault:  # noqa: BLE001 - code of others: whatever it raises is reported, nothing stops
            faults.append(PluginFault(plugin=point.name, hook=None, error=f"{type(fault).__name__}: {fault}"))
            log.warning("plugin %s does not load: %s", point.name, fault)
            continue
        plugin.name = plugin.name or point.name
        plugins.append(plugin)
    return plugins, faults


def call_hook(ws: Workspace, hook: str, *args: Any) -> list[Any]:
    """Call a hook of every plugin; gives what those returned that did not fail.

    A failure is journaled as `plugin_failed`, once for each plugin and hook of a process.

    Args:
        ws: the workspace whose plugins are called.
        hook: one of `HOOKS`.
        *args: passed on.
    """
    if hook not in HOOKS:
        raise ValueError(f"no hook is called {hook!r}; known: {', '.join(HOOKS)}")
    results = []
    for plugin in ws.plugins:
        own = getattr(plugin, hook)
        if getattr(type(plugin), hook, None) is getattr(SelfImprovementPlugin, hook):
            continue  # not overridden
        try:
            with unattended(f"plugin {plugin.name}"):
                results.append(own(*args))
        except Exception as fault:  # noqa: BLE001 - code of others: whatever it raises is reported and skipped
            ws.report_plugin(
                PluginFault(plugin=plugin.name, hook=hook, error=f"{type(fault).__name__}: {fault}")
            )
    return results
