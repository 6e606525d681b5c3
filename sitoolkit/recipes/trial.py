"""Tries a design on its cases: a design comes in, whether every recorded failure turns and no success changes goes out."""

from __future__ import annotations

from sitoolkit.recipes.design import Design
from sitoolkit.recipes.replay import Verdict, replay_case, replay_without
from sitoolkit.records import Record
from sitoolkit.sandbox import Limits

__all__ = ["Trial", "try_design"]


class Trial(Record):
    """What came of all cases; the first that did not pass ends the trial."""

    fault: str | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def turned(self) -> int:
        """Recorded failures that the tool turns."""
        return sum(verdict.passed and verdict.name.startswith("failure") for verdict in self.verdicts)

    @property
    def unchanged(self) -> int:
        """Recorded successes that it leaves as they were."""
        return sum(verdict.passed for verdict in self.verdicts) - self.turned


def try_design(design: Design, limits: Limits | None = None, allowed_imports: tuple[str, ...] = ()) -> Trial:
    """Replay every case of a design, with the tool and (the failures) without it."""
    verdicts: list[Verdict] = []
    for case in design.cases:
        if case["kind"] == "failure" and replay_without(case) is None:
            fault = f"{case['name']}: the recorded call does not fail in the replay, so nothing can be shown by it"
            return Trial(fault=fault, verdicts=tuple(verdicts))
        verdict = replay_case(
            design.source,
            case,
            limits=limits,
            allowed_imports=allowed_imports,
            output_schema=design.output_schema,
        )
        verdicts.append(verdict)
        if not verdict.passed:
            return Trial(fault=f"{verdict.name}: {verdict.detail}", verdicts=tuple(verdicts))
    if not any(verdict.name.startswith("failure") for verdict in verdicts):
        return Trial(fault="no recorded failure could be replayed", verdicts=tuple(verdicts))
    return Trial(verdicts=tuple(verdicts))
