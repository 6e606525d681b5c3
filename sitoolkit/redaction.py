"""Comes in: any text, JSON value or session. Goes out: the same with secrets replaced by `<redacted:KIND>`, counted by kind.

Nothing is hashed, stored, embedded, prompted or printed before it went through here. A secret is told by the shape of the
value, by the name beside it or by the place it stands in (see `secrets`); once told, it is removed wherever else it
occurs in the same session. Redacting twice changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from sitoolkit.records import Session, ToolInvocation, Turn
from sitoolkit.secrets.rules import Rules
from sitoolkit.secrets.walker import Work
from sitoolkit.settings import RedactionSettings, Settings
from sitoolkit.stable import bound, content_hash, drop_blobs, occurrence_id, stable_text

__all__ = [
    "Redactor",
    "Sealed",
    "bound",
    "content_hash",
    "occurrence_id",
    "redact",
    "seal",
    "seal_calls",
    "stable_text",
]

RESULT_CHARS = 8_000  # cap of a result in the telemetry log, as settings.capture.stored_result_chars
ARGS_CHARS = 64_000  # cap of a call's arguments


class Redactor:
    """Removes secrets from text and JSON values; built once from a workspace's settings.

    >>> Redactor().text("export API_KEY=abc123abc123")
    ('export API_KEY=<redacted:api_key>', Counter({'api_key': 1}))

    Args:
        settings: a whole `Settings` or its `redaction` section; `None` for the defaults.

    Raises:
        ConfigError: an extra pattern is not a regular expression.
    """

    def __init__(self, settings: Settings | RedactionSettings | None = None) -> None:
        section = settings.redaction if isinstance(settings, Settings) else settings or RedactionSettings()
        self._rules = Rules(section)

    def work(self) -> Work:
        """An empty piece of work, for texts that belong together."""
        return Work(self._rules)

    def text(self, text: str) -> tuple[str, Counter[str]]:
        """The text without secrets, and how many of each kind were removed."""
        value, counts = self.value(text)
        return value, counts

    def value(self, value: Any) -> tuple[Any, Counter[str]]:
        """The JSON value without secrets, at every depth and inside JSON that stands in strings; and the counts."""
        work = self.work()
        result = work.find(value)
        return work.scrub(result), work.counts


_DEFAULT = Redactor()


def redact(value: Any) -> Any:
    """The value without secrets, by the default settings.

    >>> redact({"token": "abc123abc123", "token_env": "REDIS_TOKEN"})
    {'token': '<redacted:token>', 'token_env': 'REDIS_TOKEN'}
    """
    return _DEFAULT.value(value)[0]


class Sealed(NamedTuple):
    """A session that may be stored, and how many secrets of each kind it held."""

    session: Session
    redactions: Counter[str]


def seal(session: Session, redactor: Redactor | None = None, result_chars: int = RESULT_CHARS) -> Sealed:
    """Redact a session everywhere, bound its results, and set `id` and `content_hash` of each call.

    Args:
        session: as a reader gave it.
        redactor: the workspace's; the default one where not given.
        result_chars: cap of each result's JSON text, in characters.

    A call whose `id` is set is left as it is, so that sealing twice changes nothing.
    """
    work = (redactor or _DEFAULT).work()
    task = work.string(session.task) if session.task else session.task
    notes = [work.string(note) for note in session.notes]
    turns = [
        (work.string(drop_blobs(turn.text)), [_found(work, call) for call in turn.calls])
        for turn in session.turns
    ]
    sealed: list[Turn] = []
    for turn, (text, calls) in zip(session.turns, turns, strict=True):
        done = tuple(_closed(work, call, result_chars) for call in calls)
        shown = work.scrub(text)
        same = shown == turn.text and all(a is b for a, b in zip(done, turn.calls, strict=True))
        sealed.append(turn if same else turn.model_copy(update={"text": shown, "calls": done}))
    update = {
        "task": work.scrub(task) if task else task,
        "notes": tuple(work.scrub(note) for note in notes),
        "turns": tuple(sealed),
    }
    return Sealed(session.model_copy(update=update), work.counts)


def seal_calls(
    calls: Iterable[ToolInvocation], redactor: Redactor | None = None, result_chars: int = RESULT_CHARS
) -> list[ToolInvocation]:
    """Seal calls that came without their session; those whose `id` is set are returned as they are."""
    work = (redactor or _DEFAULT).work()
    found = [_found(work, call) for call in calls]
    return [_closed(work, call, result_chars) for call in found]


def _found(work: Work, call: ToolInvocation) -> ToolInvocation:
    if call.id:
        return call
    return call.model_copy(
        update={
            "tool": work.string(call.tool),
            "args": work.find(drop_blobs(call.args)),
            "result": work.find(drop_blobs(call.result)),
            "error": work.string(call.error) if call.error else call.error,
            "args_error": work.string(call.args_error) if call.args_error else call.args_error,
        }
    )


def _closed(work: Work, call: ToolInvocation, result_chars: int) -> ToolInvocation:
    if call.id:
        return call
    tool = work.scrub(call.tool)
    args = bound(work.scrub(call.args), ARGS_CHARS)
    result = bound(work.scrub(call.result), result_chars)
    return call.model_copy(
        update={
            "id": occurrence_id(call.session_id, call.seq, tool, args),
            "content_hash": content_hash(tool, args, result),
            "tool": tool,
            "args": args,
            "result": result,
            "error": bound(work.scrub(call.error), result_chars) if call.error else call.error,
            "args_error": work.scrub(call.args_error) if call.args_error else call.args_error,
        }
    )
