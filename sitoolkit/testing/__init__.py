"""What tests of sitoolkit and of its plugins need: a scripted chat model, a fixed clock, transcripts with known truth.

`python -m sitoolkit.testing data/` writes the demo transcripts again, byte for byte.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LAZY = {
    "Demo": "sitoolkit.testing.demo",
    "FixedClock": "sitoolkit.testing.clock",
    "HashingEmbedder": "sitoolkit.models.embedders",
    "Scene": "sitoolkit.testing.scene",
    "ScriptedChat": "sitoolkit.testing.chat",
    "as_anthropic": "sitoolkit.testing.formats",
    "as_claude_code": "sitoolkit.testing.formats",
    "as_langchain": "sitoolkit.testing.formats",
    "as_openai": "sitoolkit.testing.formats",
    "as_own": "sitoolkit.testing.formats",
    "demo_files": "sitoolkit.testing.files",
    "generate_demo": "sitoolkit.testing.demo",
    "write_demo": "sitoolkit.testing.files",
}

__all__ = sorted(_LAZY)  # noqa: PLE0605 - names are strings from the table above


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sitoolkit.testing' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
