"""Comes in: a workspace's redaction settings. Goes out: which names and shapes are secret there, beside the built-in ones."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sitoolkit.errors import ConfigError
from sitoolkit.secrets.names import key_kind
from sitoolkit.secrets.spans import Span
from sitoolkit.settings import RedactionSettings

__all__ = ["Rules"]

_KEY_NAME = re.compile(r"[\w.$ :/@-]{1,100}")
_NAME = re.compile(r"[\w.$-]{1,100}")


class Rules:
    """What a workspace adds to and takes from the built-in names and shapes.

    Raises:
        ConfigError: an extra pattern is not a regular expression.
    """

    def __init__(self, section: RedactionSettings) -> None:
        self.extra_keys = frozenset(key.lower() for key in section.extra_keys)
        self.allow_keys = frozenset(key.lower() for key in section.allow_keys)
        self.patterns: list[tuple[str, re.Pattern[str]]] = []
        for kind, pattern in section.extra_patterns.items():
            try:
                self.patterns.append(
                    (re.sub(r"[^a-z0-9_]+", "_", kind.lower()) or "extra", re.compile(pattern))
                )
            except re.error as fault:
                raise ConfigError(
                    f"redaction.extra_patterns.{kind}: not a regular expression: {fault}"
                ) from fault
        for key in sorted(self.extra_keys):
            beside = rf"(?i)(?<![\w-]){re.escape(key)}\\{{0,8}}[\"']?[ \t]{{0,3}}[=:][ \t]{{0,3}}\\{{0,8}}[\"']?(?P<value>[^\s\"',;&<>\\]{{1,400}})"
            self.patterns.append(("secret", re.compile(beside)))

    @property
    def has_extras(self) -> bool:
        """Whether a workspace adds keys or patterns of its own."""
        return bool(self.patterns or self.extra_keys)

    def kind_of_key(self, name: str) -> str | None:
        """The kind of secret that a key of this name holds, or `None`."""
        if not _KEY_NAME.fullmatch(name):
            return None
        lowered = name.lower()
        if lowered in self.allow_keys:
            return None
        return "secret" if lowered in self.extra_keys else key_kind(name)

    def allows(self, text: str, span: Span) -> bool:
        """Whether the name that told a span is one that the workspace declares harmless."""
        name = _NAME.match(text, span.anchor) if self.allow_keys and span.anchor >= 0 else None
        return bool(name and name.group().lower() in self.allow_keys)

    def extra_spans(self, text: str) -> Iterable[Span]:
        """Spans that the workspace's own patterns find."""
        for kind, pattern in self.patterns:
            for match in pattern.finditer(text):
                start, end = match.span("value" if "value" in pattern.groupindex else 0)
                if end > start:
                    yield Span(start, end, kind)
