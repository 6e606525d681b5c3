"""sitoolkit: notes for agents, kept from their own transcripts, with the evidence beside every claim."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from sitoolkit._version import __version__

# Name -> module. Loaded at first use, so that importing sitoolkit costs milliseconds.
_LAZY: dict[str, str] = {
    "GLOBAL": "sitoolkit.records",
    "Memory": "sitoolkit.records",
    "ReadReport": "sitoolkit.transcripts",
    "Reader": "sitoolkit.records",
    "Recall": "sitoolkit.records",
    "Scope": "sitoolkit.records",
    "Session": "sitoolkit.records",
    "SitoolkitError": "sitoolkit.errors",
    "ToolInvocation": "sitoolkit.records",
    "Turn": "sitoolkit.records",
    "Workspace": "sitoolkit.workspace",
    "apply_decay": "sitoolkit.loops.decay",
    "build_tool": "sitoolkit.loops.toolsmith",
    "build_waiting": "sitoolkit.loops.toolsmith",
    "capture_sessions": "sitoolkit.loops.capture",
    "demo_transcripts": "sitoolkit.shipped",
    "detect_corrections": "sitoolkit.loops.correction_signals",
    "detect_format": "sitoolkit.transcripts.detect",
    "detect_friction": "sitoolkit.loops.friction",
    "distill_patterns": "sitoolkit.loops.distill",
    "doctor": "sitoolkit.doctor",
    "explain": "sitoolkit.recall",
    "group_messages": "sitoolkit.grouping",
    "import_guides": "sitoolkit.guides",
    "inject": "sitoolkit.recall",
    "judge": "sitoolkit.failures",
    "learn_facts": "sitoolkit.loops.corrections",
    "learn_from_failures": "sitoolkit.loops.lessons",
    "lesson_effects": "sitoolkit.loops.lessons",
    "list_runs": "sitoolkit.runs",
    "notebook_result": "sitoolkit.notebook",
    "notebook_setup": "sitoolkit.notebook",
    "placed": "sitoolkit.loops.capture",
    "plan_decay": "sitoolkit.loops.decay",
    "progress": "sitoolkit.notebook",
    "propose_maintenance": "sitoolkit.loops.maintenance",
    "read_sessions": "sitoolkit.transcripts.read",
    "recall": "sitoolkit.recall",
    "reflect_on_session": "sitoolkit.loops.reflection",
    "retract_fact": "sitoolkit.loops.corrections",
    "run_nightly": "sitoolkit.nightly",
    "run_notebook": "sitoolkit.nightly",
    "scan_error_signatures": "sitoolkit.loops.signatures",
    "scan_friction": "sitoolkit.loops.friction",
    "signature_mapping": "sitoolkit.loops.signatures",
    "tool_backlog": "sitoolkit.loops.tool_metrics",
    "tool_metrics": "sitoolkit.loops.tool_metrics",
    "triage_signatures": "sitoolkit.loops.triage",
    "who_saw": "sitoolkit.recall",
    "write_report": "sitoolkit.views.report",
    "write_sessions": "sitoolkit.transcripts.write",
}

__all__ = ["__version__", *sorted(_LAZY)]  # noqa: PLE0604 - names are strings from the table above


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'sitoolkit' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


class _Face(ModuleType):
    """Keeps `sitoolkit.recall` the verb: importing the module of that name would put the module in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _LAZY and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def _in_notebook() -> None:
    """In a notebook or IPython, let records show themselves as small tables."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        import_module("sitoolkit.views.html").register_displays(shell)


_in_notebook()
