"""Calls meet their results: in come turns, calls and results in the order of the file, out comes one `Session`.

A result belongs to the call with its id in the newest batch of calls that still waits for that id, so that ids may
repeat from turn to turn; where ids lack or repeat within a batch, position decides and the call says so (`paired_by`,
`guessed`). Results may come in any order. What a later record states again counts once. A result without a call is
kept as a `tool` turn and counted; a call without a result keeps the outcome `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeVar

from sitoolkit.errors import TimeError
from sitoolkit.failures import judge
from sitoolkit.records import (
    Outcome,
    Record,
    Session,
    Source,
    ToolInvocation,
    Turn,
    Usage,
    canonical_json,
    parse_time,
)
from sitoolkit.transcripts.source import parse_args

__all__ = ["SessionBuilder", "make", "session_outcome", "whole"]

R = TypeVar("R", bound=Record)
_DEFAULTS: dict[type[Record], dict[str, Any]] = {}
_NAMES: dict[type[Record], set[str]] = {}
_set = object.__setattr__


def make(kind: type[R], values: dict[str, Any]) -> R:
    """A record without validation, some ten times faster: the caller vouches for types, and gives every required field.

    >>> make(Source, {"file": "a.jsonl", "line": 3})
    """
    defaults = _DEFAULTS.get(kind)
    if defaults is None:
        defaults = {
            name: None if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in kind.model_fields.items()
        }
        _DEFAULTS[kind] = defaults
    return whole(kind, {**defaults, **values})


def whole(kind: type[R], values: dict[str, Any]) -> R:
    """A record from all its fields; which of them were set is not told apart, so the set of names is shared."""
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = set(kind.model_fields)
    record = kind.__new__(kind)
    _set(record, "__dict__", values)
    _set(record, "__pydantic_fields_set__", names)
    _set(record, "__pydantic_extra__", None)
    _set(record, "__pydantic_private__", None)
    return record


class _Call:
    """A call that is being built, with the evidence of how it ended."""

    __slots__ = ("answered", "batch", "evidence", "id", "result", "result_at", "turn", "values")

    def __init__(self, call_id: str | None, turn: int, batch: int, values: dict[str, Any]) -> None:
        self.id, self.turn, self.batch, self.values = call_id, turn, batch, values
        self.answered = False
        self.result: Any = None
        self.result_at: datetime | None = None
        self.evidence: dict[str, Any] | None = None


class SessionBuilder:
    """Collects one session; methods are called in the order of the transcript.

    >>> build = SessionBuilder("runs/a.jsonl", "a", format="mine")
    >>> build.turn("assistant", "I look.", line=2); build.call("ls", {"path": "."}, call_id="c1", line=2)
    >>> build.result("file.txt", call_id="c1", line=3); session = build.build()

    Args:
        file: path of the transcript, as it is to be shown.
        session_id: the harness's own id, or one that stays the same when the file grows.
        format: name of the format.
        fields: any other field of `Session`: agent, project, model, task, reward, outcome, parent_id …
    """

    def __init__(
        self, file: str, session_id: str, *, format: str, line: int | None = None, **fields: Any
    ) -> None:
        self.file, self.format = (
            file,
            format,
        )  # `file` may be set anew where a session spreads over several files
        self._home = file
        self.fields: dict[str, Any] = dict(fields)
        self.session_id = session_id
        self.line = line
        self.orphans = 0
        self.repeated_results = 0
        self.notes: dict[str, None] = {}
        self._turns: list[dict[str, Any]] = []
        self._turn_calls: list[list[_Call]] = []
        self._keys: dict[str, int] = {}
        self._calls: list[_Call] = []
        self._waiting: dict[str, list[_Call]] = {}  # open calls by id
        self._known: dict[str, _Call] = {}  # newest call of each id
        self._batch = 0
        self._answered_since_call = False
        self._usage: dict[str, dict[str, float]] = {}
        self._first_at: datetime | None = None
        self._last_at: datetime | None = None
        self._first_line: int | None = None
        self._early: dict[
            str, tuple[int, Any, object, int | None, dict[str, Any]]
        ] = {}  # results before any such call
        self._in_order = True  # every call stands in the newest turn
        self._sources: dict[tuple[str, int | None], Source] = {}

    # ------------------------------------------------------------ what readers call

    @property
    def empty(self) -> bool:
        """Nothing was said or called yet."""
        return not self._turns

    @property
    def calls_seen(self) -> int:
        return len(self._calls)

    @property
    def turns_seen(self) -> int:
        return len(self._turns)

    def waits_for(self, call_id: object) -> bool:
        """Is there a call with this id that has no result yet?"""
        return bool(self._waiting.get(str(call_id)))

    def note(self, text: str) -> None:
        """Something that the reader had to assume; each text stands once in `Session.notes`."""
        self.notes[text] = None

    def time(self, value: object) -> datetime | None:
        """Read a time; without a zone it is UTC and that is noted; unreadable it is `None` and that is noted."""
        if value is None or value == "":
            return None
        try:
            at = parse_time(value, naive_is_utc=True)
        except TimeError as fault:
            self.note(f"a time could not be read: {str(fault)[:80]}")
            return None
        if (isinstance(value, str) and "T" in value + "T" and not _has_zone(value)) or (
            isinstance(value, datetime) and value.tzinfo is None
        ):
            self.note("times without a zone were read as UTC")
        if at is not None:
            if self._first_at is None or at < self._first_at:
                self._first_at = at
            if self._last_at is None or at > self._last_at:
                self._last_at = at
        return at

    def turn(
        self,
        role: Literal["system", "user", "assistant", "tool", "other"],
        text: str = "",
        *,
        at: object = None,
        line: int | None = None,
        author: str | None = None,
        key: str | None = None,
    ) -> int:
        """Add a message; returns its index. With `key`, messages of one key are one turn (a block a line)."""
        if key is not None and key in self._keys:
            index = self._keys[key]
            if text:
                known = self._turns[index]
                known["text"] = f"{known['text']}\n{text}" if known["text"] else text
            if at is not None:
                self.time(at)
            return index
        index = len(self._turns)
        if key is not None:
            self._keys[key] = index
        if self._first_line is None:
            self._first_line = line
        if role == "assistant" or role == "user":
            self._batch += 1
            self._answered_since_call = False
        self._turns.append(
            {
                "role": role,
                "text": text,
                "calls": (),
                "at": None if at is None else self.time(at),
                "index": index,
                "author": author if type(author) is str else None,
                "abandoned": False,
                "source": self._source(line),
            }
        )
        self._turn_calls.append([])
        return index

    def call(
        self,
        tool: str,
        args: Any = None,
        *,
        call_id: str | None = None,
        at: object = None,
        line: int | None = None,
        turn: int | None = None,
        restates: bool = False,
        ran: bool = True,
        is_write: bool | None = None,
        args_error: str | None = None,
        agent: str | None = None,
    ) -> _Call:
        """Add a call to the last assistant turn (or to `turn`). `args` may be an object or JSON text.

        Args:
            restates: ids are unique in this format (with `turn`: within that turn), so a call with a known id is the same
                call told again.
            ran: false where the message that asked for it ended in an error before anything was run.
        """
        if not isinstance(args, dict):
            args, problem = parse_args(args)
            args_error = args_error or problem
        call_id = call_id if call_id else None
        if call_id is not None and not isinstance(call_id, str):
            call_id = str(call_id)
        tool = tool if isinstance(tool, str) and tool else "unknown"
        if restates and call_id is not None and call_id in self._known:
            known = self._known[call_id]
            if (turn is None or known.turn == turn) and self._told_again(known, tool, args):
                if known.values["started_at"] is None:
                    known.values["started_at"] = self.time(at)
                known.values["ran"] = known.values["ran"] or ran
                return known
        if turn is None:
            turn = len(self._turns) - 1
            while turn >= 0 and self._turns[turn]["role"] in ("tool", "system", "other"):
                turn -= 1
            if turn < 0 or self._turns[turn]["role"] != "assistant":
                turn = self.turn("assistant", at=at, line=line)
        if self._answered_since_call:  # call, result, call, result within one turn: each is its own batch
            self._batch += 1
            self._answered_since_call = False
        values: dict[str, Any] = {
            "tool": tool,
            "args": args,
            "args_error": args_error,
            "call_id": call_id,
            "started_at": None if at is None else self.time(at),
            "is_write": is_write,
            "agent": agent,
            "ran": ran,
            "line": line,
        }
        if self.file is not self._home:
            values["file"] = self.file
        if turn != len(self._turns) - 1:
            self._in_order = False
        call = _Call(call_id, turn, self._batch, values)
        self._calls.append(call)
        self._turn_calls[turn].append(call)
        if call_id is not None:
            self._waiting.setdefault(call_id, []).append(call)
            self._known[call_id] = call
        return call

    @staticmethod
    def _told_again(known: _Call, tool: str, args: Any) -> bool:
        """Is this the known call once more? The fuller statement of its name and arguments is kept."""
        before = known.values["args"]
        if tool != known.values["tool"] and "unknown" not in (tool, known.values["tool"]):
            return False
        if known.answered and args and before and args != before:
            return False
        if args and args != before:
            known.values["args"] = args
        if known.values["tool"] == "unknown":
            known.values["tool"] = tool
        return True

    def result(
        self,
        value: Any,
        *,
        call_id: str | None = None,
        tool: str | None = None,
        call: _Call | None = None,
        at: object = None,
        line: int | None = None,
        is_error: bool | None = None,
        status: str | None = None,
        exit_code: int | None = None,
        error: Any = None,
        typed_error: str | None = None,
        duration_ms: float | None = None,
        outcome: Outcome | None = None,
        guessed: bool = False,
        inline: bool = False,
        replace: bool = False,
    ) -> _Call | None:
        """Add a result with all that the harness says about how it ended; returns its call, or `None` for an orphan.

        Args:
            call: the call it belongs to, where the reader knows (one record holds both).
            outcome: overrules the judgement; only where the harness names an outcome that no flag or status tells.
            replace: the final result of a call that has an interim one.
        """
        if call_id is not None and not isinstance(call_id, str):
            call_id = str(call_id)
        how: Literal["id", "position", "inline"] = "id"
        if call is not None:
            how = "inline" if inline or call_id is None else "id"
        else:
            call, how, unsure = self._find(call_id or None, tool)
            guessed = guessed or unsure
        if call is None and call_id and call_id in self._known:
            known = self._known[call_id]
            if replace:
                call, how = known, "id"
            elif _same(known.result, value):
                self.repeated_results += 1
                return known
        if call is None or (call.answered and not replace):
            if call is not None and _same(call.result, value):
                self.repeated_results += 1
                return call
            self.orphans += 1
            if call_id and call_id not in self._known:
                told = {
                    "is_error": is_error,
                    "status": status,
                    "exit_code": exit_code,
                    "error": error,
                    "typed_error": typed_error,
                    "outcome": outcome,
                }
                self._early[call_id] = (
                    len(self._turns),
                    value,
                    at,
                    line,
                    {key: item for key, item in told.items() if item is not None},
                )
            self.turn(
                "tool", value if isinstance(value, str) else _as_text(value), at=at, line=line, author=tool
            )
            self._answered_since_call = True
            return None
        if call.id is not None and not call.answered:
            queue = self._waiting.get(call.id)
            if queue and call in queue:
                queue.remove(call)
        self._answered_since_call = True
        call.answered = True
        call.result = value
        call.result_at = None if at is None else self.time(at)
        values = call.values
        values["paired_by"] = how
        values["guessed"] = guessed
        values["result_line"] = line
        if self.file is not self._home:
            values["result_file"] = self.file
        if duration_ms is not None:
            values["duration_ms"] = duration_ms
        if values["tool"] == "unknown" and tool:
            values["tool"] = tool
        if (
            is_error is not None
            or status is not None
            or exit_code is not None
            or error is not None
            or typed_error is not None
            or outcome is not None
        ):
            self.evidence(
                call,
                is_error=is_error,
                status=status,
                exit_code=exit_code,
                error=error,
                typed_error=typed_error,
                outcome=outcome,
            )
        return call

    def evidence(self, call: _Call | str, **told: Any) -> bool:
        """Add what another record says about a call (exit_code, status, is_error, error, typed_error, duration_ms).

        Returns whether the call is known.
        """
        if isinstance(call, str):
            found = self._known.get(call)
            if found is None:
                return False
            call = found
        if told.get("duration_ms") is not None:
            call.values["duration_ms"] = told["duration_ms"]
        told.pop("duration_ms", None)
        call.evidence = {
            **(call.evidence or {}),
            **{key: item for key, item in told.items() if item is not None},
        }
        return True

    def extend(self, turn: int, text: str) -> None:
        """Add a piece to the text of a turn, where a stream tells it in pieces."""
        self._turns[turn]["text"] += text

    def abandon(self, turn: int) -> None:
        """Mark a turn, with its calls, as standing on a branch that was given up."""
        self._turns[turn]["abandoned"] = True

    def never_ran(self, turn: int) -> None:
        """The message of this turn ended in an error: its calls without a result were not run."""
        for call in self._turn_calls[turn]:
            if not call.answered:
                call.values["ran"] = False

    def usage(self, key: str | None = None, /, **amounts: float | None) -> None:
        """Add tokens or cost (input_tokens, output_tokens, cache_read_tokens, cost_usd).

        With `key` (a message's id) what is told again for the same key counts once, at its largest value.
        """
        into = self._usage.setdefault(key if key is not None else f"\0{len(self._usage)}", {})
        for name, amount in amounts.items():
            if isinstance(amount, int | float) and not isinstance(amount, bool):
                into[name] = max(into.get(name, 0), amount)

    def replace_usage(self, **amounts: float) -> None:
        """The transcript's own total, instead of the sum of what its messages told."""
        self._usage = {"": dict(amounts)}

    # ------------------------------------------------------------ pairing

    def _find(
        self, call_id: str | None, tool: str | None
    ) -> tuple[_Call | None, Literal["id", "position"], bool]:
        """The call that a result belongs to, how it was found, and whether that is a guess."""
        if call_id is not None:
            waiting = self._waiting.get(call_id)
            if waiting:
                if len(waiting) == 1:
                    return waiting[0], "id", False
                newest = max(call.batch for call in waiting)
                batch = [call for call in waiting if call.batch == newest]
                if len(batch) == 1:
                    return batch[0], "id", False
                named = [call for call in batch if tool and call.values["tool"] == tool]
                if len(named) == 1:
                    return named[0], "position", False
                return (named or batch)[0], "position", True
            if call_id in self._known:
                return None, "id", False
        batch = self._open_batch(anonymous=call_id is not None)
        if tool:
            named = [call for call in batch if call.values["tool"] == tool]
            if not named and any(call.values["tool"] != "unknown" for call in batch):
                return None, "position", False
            if named:
                return named[0], "position", call_id is not None or len(named) > 1
        if not batch:
            return None, "position", False
        return batch[0], "position", call_id is not None or len(batch) > 1

    def _open_batch(self, *, anonymous: bool) -> list[_Call]:
        """Open calls of the newest batch, in order; `anonymous` keeps those alone that carry no id."""
        newest = self._calls[-1].batch if self._calls else -1
        found = []
        for call in reversed(self._calls):
            if call.batch != newest:
                break
            if not call.answered and not (anonymous and call.id is not None):
                found.append(call)
        found.reverse()
        return found

    # ------------------------------------------------------------ the session

    def build(self, **fields: Any) -> Session:
        """Judge every call and return the session."""
        if self._early:
            self._pair_early()
        values = {**self.fields, **fields}
        self.session_id = _name(self.session_id) or "unnamed"
        agent = _name(values.get("agent")) or ""
        project, team, org = (_name(values.get(key)) for key in ("project", "team", "org"))
        values.update(project=project, team=team, org=org)
        ordered = self._calls if self._in_order else sorted(self._calls, key=_turn_of)
        for seq, call in enumerate(ordered):
            call.values["seq"] = seq
        turns = []
        for turn, calls in zip(self._turns, self._turn_calls, strict=True):
            if calls:
                turn["calls"] = tuple(
                    [self._invocation(call, turn, agent, project, team, org) for call in calls]
                )
            turns.append(whole(Turn, turn))
        values.update(
            id=self.session_id,
            format=self.format,
            agent=agent,
            turns=tuple(turns),
            orphan_results=self.orphans,
            source=self._source(self.line or self._first_line, self._home),
        )
        if "started_at" not in values or values["started_at"] is None:
            values["started_at"] = self._first_at
        if "ended_at" not in values or values["ended_at"] is None:
            values["ended_at"] = self._last_at
        if not values.get("usage") and any(self._usage.values()):
            values["usage"] = self._total_usage()
        if not values.get("outcome"):
            values["outcome"] = session_outcome(turns)
        values["notes"] = (*values.get("notes", ()), *self.notes)
        return make(Session, values)

    def _pair_early(self) -> None:
        """Results that came before their call, as logs of parallel writers have them: certain ids, a guess all the same."""
        for call_id, (turn, value, at, line, told) in self._early.items():
            waiting = self._waiting.get(call_id)
            if waiting and len(waiting) == 1:
                self.result(value, call=waiting[0], call_id=call_id, at=at, line=line, guessed=True, **told)
                self.orphans -= 1
                self._turns[turn]["text"] = ""

    def _invocation(
        self,
        call: _Call,
        turn: Mapping[str, Any],
        agent: str,
        project: str | None,
        team: str | None,
        org: str | None,
    ) -> ToolInvocation:
        told = call.values
        evidence = call.evidence
        started = told["started_at"] or turn["at"]
        duration = told.get("duration_ms")
        if duration is None and call.result_at is not None and started is not None:
            waited = (call.result_at - started).total_seconds() * 1000
            duration = round(waited, 3) if waited >= 0 else None
        outcome, mode, error, rule = Outcome.UNKNOWN, None, None, None
        if call.answered or evidence:
            decided = evidence.pop("outcome", None) if evidence else None
            if not told["ran"]:
                error = _as_text(evidence.get("error")) or None if evidence else None
                rule = "never-ran"
            else:
                outcome, mode, error, rule = judge(
                    call.result, tool=told["tool"], answered=call.answered, **(evidence or {})
                )
                if decided is not None:
                    outcome, rule = decided, "reader"
        return whole(
            ToolInvocation,
            {
                "id": "",
                "content_hash": "",
                "session_id": self.session_id,
                "seq": told["seq"],
                "tool": told["tool"],
                "args": told["args"],
                "args_error": told["args_error"],
                "result": call.result,
                "outcome": outcome,
                "failure_mode": mode,
                "rule": rule,
                "error": error,
                "started_at": started,
                "duration_ms": duration,
                "is_write": told["is_write"],
                "agent": (_name(told["agent"]) if told["agent"] else None) or agent,
                "project": project,
                "team": team,
                "org": org,
                "call_id": call.id,
                "paired": call.answered,
                "paired_by": told.get("paired_by"),
                "guessed": told.get("guessed", False),
                "ran": told["ran"],
                "abandoned": turn["abandoned"],
                "turn": call.turn,
                "source": self._source(told["line"], told.get("file", self._home)),
                "result_source": self._source(told.get("result_line"), told.get("result_file", self._home))
                if call.answered
                else None,
            },
        )

    def _source(self, line: int | None, file: str | None = None) -> Source:
        """One `Source` a line: a conversation on one line has hundreds of records from it."""
        key = (file or self.file, line)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = whole(Source, {"file": key[0], "line": line, "format": self.format})
        return source

    def _total_usage(self) -> Usage:
        total: dict[str, float] = {}
        for amounts in self._usage.values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        return Usage(
            **{name: amount if name == "cost_usd" else int(amount) for name, amount in total.items()}
        )


_UNFIT = re.compile(r"[\x00-\x1f\x7f]+")


def _name(value: Any) -> str | None:
    """A name that a scope can carry: one line of at most 200 characters; `None` where nothing is left."""
    if not isinstance(value, str):
        return None
    if value.isalnum() and len(value) <= 200:
        return value
    return _UNFIT.sub(" ", value).strip()[:200].strip() or None


def _turn_of(call: _Call) -> int:
    return call.turn


def _has_zone(text: str) -> bool:
    tail = text.strip()
    return (
        tail.endswith(("Z", "z"))
        or "+" in tail[10:]
        or "-" in tail[10:]
        or tail.replace(".", "").lstrip("-").isdigit()
    )


def _same(one: Any, other: Any) -> bool:
    return one == other or (type(one) is not type(other) and canonical_json(one) == canonical_json(other))


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value)


def session_outcome(turns: list[Turn]) -> str:
    """A session that ends with an answer after a last call that did not fail went well; else nothing is known."""
    answered = False
    for turn in reversed(turns):
        if turn.role in ("system", "other") or turn.abandoned:
            continue
        if turn.role == "user" and not answered:
            return "unknown"
        if turn.calls:
            last = turn.calls[-1]
            return "success" if answered and last.outcome is Outcome.SUCCESS else "unknown"
        if turn.role == "assistant" and turn.text.strip():
            answered = True
    return "success" if answered else "unknown"
