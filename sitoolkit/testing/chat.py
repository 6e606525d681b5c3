"""A chat model with a queue of answers: comes in what it shall say, goes out a `ChatModel` that records its prompts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sitoolkit.errors import ModelError

__all__ = ["ScriptedChat"]

Answer = Mapping[str, Any] | Exception | Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class ScriptedChat:
    """Answers prompts from a script; needs no server.

    >>> chat = ScriptedChat([{"lines": ["ok"]}])
    >>> chat.complete("say ok", {})
    {'lines': ['ok']}

    Args:
        answers: one for each call, in order: a JSON object, an exception to raise, or a function of (prompt, schema).
        name: what `written_by` will say.

    Raises:
        ModelError: more was asked than the script holds.
    """

    def __init__(self, answers: Iterable[Answer] = (), *, name: str = "scripted") -> None:
        self.name = name
        self.answers: list[Answer] = list(answers)
        self.prompts: list[str] = []
        self.schemas: list[Mapping[str, Any]] = []

    def complete(self, prompt: str, schema: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The next answer of the script; what was asked is kept in `prompts` and `schemas`."""
        self.prompts.append(prompt)
        self.schemas.append(schema)
        if not self.answers:
            raise ModelError(
                f"the script of {self.name!r} is at its end; prompt {len(self.prompts)} has no answer"
            )
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return copy.deepcopy(dict(answer(prompt, schema) if callable(answer) else answer))
