"""A `*.guide.yaml` file comes in, a checked `Guide` goes out, or the reason why the file is none.

The file is hostile until it is read: aliases, tags, repeated keys, deep nesting and control characters are refused, and every
scalar is text (`keywords: [no, on]` are two words, not two truth values).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sitoolkit.errors import ScopeError
from sitoolkit.records import GLOBAL, Record, Scope, digest

__all__ = ["TIERS", "Guide", "GuideFileError", "find_guide_files", "read_guide"]

# Tier -> priority. The weight is 0.5 + (priority - 1) x 1.5 / 9, as in the seed system: 2.0, 1.67, 1.33, 0.83.
TIERS = {"vendor": 10, "platform": 8, "team": 6, "user": 3}
SUFFIX = ".guide.yaml"
_MAX_BYTES = 200_000
_MAX_DEPTH = 12
_MAX_BODY = 24_000  # characters; longer ones do not fit any prompt
_INTENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?")  # snake_case by custom; never a path
_KNOWN = {
    "schema_version", "intent", "agent", "keywords", "body", "scope", "tier", "source_tier", "priority", "related",
}  # fmt: skip


class GuideFileError(ValueError):
    """Why a file is no guide; the message is one line for the report."""


class Guide(Record):
    """One directive: what an agent is told before there is anything to learn from."""

    intent: str
    agent: str
    keywords: tuple[str, ...]
    body: str
    scope: Scope
    tier: str
    priority: int
    related: tuple[dict[str, str], ...] = ()
    file: str = ""

    @property
    def slot(self) -> str:
        """The place in memory that one version of the guide holds at a time."""
        return f"guide:{self.agent}:{self.intent}"

    @property
    def base_weight(self) -> float:
        """Weight in ranking, by tier or priority; 0.5 to 2.0."""
        return round(0.5 + (self.priority - 1) * 1.5 / 9, 4)

    @property
    def content_hash(self) -> str:
        """Changes with anything that recall would do differently."""
        return digest("guide/1", self.agent, self.intent, self.body, list(self.keywords), self.base_weight)


def find_guide_files(folder: Path) -> Iterator[Path]:
    """Guide files below a folder, in order of their paths; hidden folders and links that lead outside are left out."""
    root = folder.resolve()
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or not path.is_file():
            continue
        if path.resolve().is_relative_to(root):
            yield path


def read_guide(path: Path, name: str = "") -> Guide:
    """Read and check one file.

    >>> read_guide(Path("guides/core/guides/secrets_by_env.guide.yaml")).scope  # doctest: +SKIP
    'global'

    The scope is the file's `scope` (`global`, `team:x`, …, or an agent's name); else `global` for agent `core` and for files
    below `core/guides/`; else the agent's own.

    Args:
        path: the file.
        name: how to call it in `Guide.file`; the path as given when empty.

    Raises:
        GuideFileError: it is not a guide; says why.
    """
    fields = _load(path)
    unknown = sorted(set(fields) - _KNOWN)
    if unknown:
        raise GuideFileError(f"unknown field {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}")
    intent = _text(fields, "intent")
    if not _INTENT.fullmatch(intent):
        raise GuideFileError(f"intent {intent!r:.60} is not a name (letters, digits, _ and -; at most 100)")
    agent = _text(fields, "agent")
    body = _text(fields, "body")
    if len(body) > _MAX_BODY:
        raise GuideFileError(f"body has {len(body)} characters, at most {_MAX_BODY}")
    keywords = fields.get("keywords")
    if not isinstance(keywords, list) or not all(isinstance(word, str) and word.strip() for word in keywords):
        raise GuideFileError("keywords: a list of words is needed, as [deploy, release]")
    if not keywords or len(keywords) > 64:
        raise GuideFileError(f"keywords: 1 to 64 are needed, there are {len(keywords)}")
    version = fields.get("schema_version", "1")
    if version not in ("1", "2"):
        raise GuideFileError(f"schema_version {version!r} is not known; 1 and 2 are")
    tier, priority = _tier(fields)
    try:
        return Guide(
            intent=intent,
            agent=agent,
            keywords=tuple(" ".join(word.split()) for word in keywords),
            body=body.replace("\r\n", "\n").strip(),
            scope=_scope(fields.get("scope"), agent, path),
            tier=tier,
            priority=priority,
            related=tuple(item for item in fields.get("related") or () if isinstance(item, dict)),
            file=name or str(path),
        )
    except (ScopeError, ValidationError) as fault:
        raise GuideFileError(str(fault).splitlines()[0]) from fault


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise GuideFileError(f"{key} is missing" if value in (None, "") else f"{key} is not text")
    return value.strip()


def _tier(fields: dict[str, Any]) -> tuple[str, int]:
    tier = fields.get("source_tier", fields.get("tier"))
    if tier is not None:
        if tier not in TIERS:
            raise GuideFileError(f"tier {tier!r:.40} is not known; known: {', '.join(TIERS)}")
        return tier, TIERS[tier]
    priority = fields.get("priority")
    if priority is None:
        return "user", TIERS["user"]
    if not isinstance(priority, str) or not re.fullmatch(r"[1-9]|10", priority):
        raise GuideFileError(f"priority {priority!r:.40} is not a whole number from 1 to 10")
    return "user", int(priority)


def _scope(given: Any, agent: str, path: Path) -> Scope:
    if given is None:
        shared = agent == "core" or path.parts[-3:-1] == ("core", "guides")
        return GLOBAL if shared else Scope.of("agent", agent)
    if not isinstance(given, str):
        raise GuideFileError("scope is not text")
    if given == "core":
        return GLOBAL
    return Scope(given) if given == "global" or ":" in given else Scope.of("agent", given)


# ---------------------------------------------------------------- YAML, and no more of it than a guide needs


def _load(path: Path) -> dict[str, Any]:
    import yaml

    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise GuideFileError(f"{size} bytes, at most {_MAX_BYTES}")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise GuideFileError(f"not readable: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise GuideFileError(f"not UTF-8 (byte {fault.start})") from fault
    try:
        _refuse_tricks(text)
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        problem = getattr(fault, "problem", None) or str(fault).splitlines()[0]
        raise GuideFileError(f"not YAML: {problem}" + (f" (line {mark.line + 1})" if mark else "")) from fault
    except RecursionError as fault:
        raise GuideFileError("nested too deeply") from fault
    value = _plain(node) if node is not None else None
    if not isinstance(value, dict):
        raise GuideFileError("empty" if value in (None, "") else "not a mapping of fields")
    return value


def _refuse_tricks(text: str) -> None:
    import yaml

    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise GuideFileError(f"anchors and aliases are not read (line {line})")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
            raise GuideFileError(f"tags are not read (line {line})")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise GuideFileError(f"nested deeper than {_MAX_DEPTH} (line {line})")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise GuideFileError(f"more than one document (line {line})")


def _plain(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return None if node.style is None and node.value in ("", "~", "null") else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    out: dict[str, Any] = {}
    for key, value in node.value:
        name = _plain(key)
        if not isinstance(name, str):
            raise GuideFileError(f"a field name is not text (line {key.start_mark.line + 1})")
        if name in out:
            raise GuideFileError(f"field {name!r:.40} stands twice (line {key.start_mark.line + 1})")
        out[name] = _plain(value)
    return out
