"""Writes one session step by step: comes in who says and calls what, goes out a `Session` record, unredacted."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from sitoolkit.records import Outcome, Session, Source, ToolInvocation, Turn

__all__ = ["Scene"]


class Scene:
    """A session in the making; time passes by itself, a few seconds a step, from the seeded generator.

    >>> scene = Scene("s1", random.Random(1), at, agent="ops")
    >>> scene.user("hello"); scene.call("list_services", {}, ["redis"])
    >>> scene.session().calls[0].tool
    'list_services'
    """

    def __init__(
        self,
        session_id: str,
        rng: random.Random,
        at: datetime,
        *,
        format: str = "",
        agent: str = "",
        project: str | None = None,
        model: str = "demo-model",
    ) -> None:
        self.id, self.rng, self.at, self.started = session_id, rng, at, at
        self.format, self.agent, self.project, self.model = format, agent, project, model
        self.turns: list[Turn] = []
        self.seq = 0

    def _pass(self, low: float = 1.0, high: float = 9.0) -> datetime:
        self.at += timedelta(milliseconds=round(self.rng.uniform(low, high) * 1000))
        return self.at

    def _turn(self, role: Any, text: str, calls: tuple[ToolInvocation, ...] = ()) -> int:
        self.turns.append(Turn(role=role, text=text, calls=calls, at=self._pass(), index=len(self.turns)))
        return len(self.turns) - 1

    def user(self, text: str) -> int:
        """The user says `text`; returns the turn's index."""
        return self._turn("user", text)

    def say(self, text: str) -> int:
        """The agent says `text`."""
        return self._turn("assistant", text)

    def call(
        self,
        tool: str,
        args: dict[str, Any],
        result: Any = "ok",
        *,
        outcome: Outcome = Outcome.SUCCESS,
        mode: str | None = None,
        error: str | None = None,
        duration_ms: float | None = None,
        text: str = "",
    ) -> ToolInvocation:
        """The agent calls a tool; an unknown outcome is a call whose result never came."""
        paired = outcome is not Outcome.UNKNOWN
        took = duration_ms if duration_ms is not None else float(self.rng.randint(40, 900))
        call = ToolInvocation(
            session_id=self.id,
            seq=self.seq,
            tool=tool,
            args=args,
            result=result if paired and error is None else error,
            outcome=outcome,
            failure_mode=mode,
            error=error,
            started_at=self._pass(),
            duration_ms=took if paired else None,
            agent=self.agent,
            project=self.project,
            call_id=f"call_{self.id.replace('-', '')}_{self.seq:03d}",
            paired=paired,
            paired_by="id" if paired else None,
            turn=len(self.turns),
            source=Source(file="", format=self.format),
        )
        self.seq += 1
        self._turn("assistant", text, (call,))
        self.at += timedelta(milliseconds=took)
        return call

    def session(self, outcome: str = "success", task: str | None = None) -> Session:
        """What happened so far, as a record."""
        return Session(
            id=self.id,
            format=self.format,
            agent=self.agent,
            project=self.project,
            started_at=self.started,
            ended_at=self.at,
            model=self.model,
            task=task or next((turn.text for turn in self.turns if turn.role == "user"), None),
            outcome=outcome,
            turns=tuple(self.turns),
            source=Source(file="", format=self.format),
        )
