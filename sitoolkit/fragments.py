"""Approved instructions for an agent's system prompt: a workspace folder and an agent come in, their texts go out.

Each lies in `prompts/fragments/NAME/` as `v1.md`, `v2.md` …; `current.json` says which version is in force and for which
agent. Only the gate writes them.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

__all__ = ["FOLDER", "load_fragments"]

FOLDER = "prompts/fragments"
_log = logging.getLogger(__name__)


def load_fragments(workspace: Path, agent: str | None = None) -> tuple[str, ...]:
    """The instructions in force for an agent, in order of name; those that name no agent are for all.

    Args:
        workspace: folder of the workspace.
        agent: name of the agent that reads.
    """
    found: list[str] = []
    for head in sorted((workspace / FOLDER).glob("*/current.json")):
        try:
            said = json.loads(head.read_text(encoding="utf-8"))
            wanted = said.get("agent")
            if wanted not in (None, "", agent):
                continue
            found.append((head.parent / f"v{int(said['version'])}.md").read_text(encoding="utf-8").strip())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            _log.warning("instructions in %s are left out: %s: %s", head.parent, type(fault).__name__, fault)
    return tuple(text for text in found if text)
