"""Writes the demo to a folder: comes in a folder and a seed, goes out transcripts in three formats and `truth.json`."""

from __future__ import annotations

import json
from pathlib import Path

from sitoolkit.testing.demo import generate_demo
from sitoolkit.testing.formats import as_claude_code, as_langchain, as_own

__all__ = ["demo_files", "write_demo"]


def demo_files(seed: int = 7) -> dict[str, str]:
    """Relative path -> text of each file of the demo."""
    demo = generate_demo(seed)
    files = {"transcripts/ops.jsonl": as_own(demo.sessions["ops"])}
    files |= {
        f"transcripts/atlas/{session.id}.jsonl": as_claude_code(session) for session in demo.sessions["atlas"]
    }
    files |= {
        f"transcripts/data/{session.id}.json": as_langchain(session) for session in demo.sessions["data"]
    }
    files["truth.json"] = json.dumps(demo.truth, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return files


def write_demo(folder: Path, seed: int = 7) -> list[Path]:
    """Write the demo below `folder`; files that are already the same stay untouched.

    >>> paths = write_demo(Path("data"))

    Returns:
        The paths, in order.
    """
    paths = []
    for name, text in demo_files(seed).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode("utf-8")
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
        paths.append(path)
    return paths
