"""What a tool is built from: all calls of some sessions come in, the failures of one tool in one mode with what came after each go out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sitoolkit.records import Outcome, Record, ToolInvocation

__all__ = ["Evidence", "Failure", "gather"]


class Failure(Record):
    """One failed call, what the session did between, and the call of the same tool that then worked, if one did."""

    call: ToolInvocation
    between: tuple[ToolInvocation, ...] = ()
    recovery: ToolInvocation | None = None


class Evidence(Record):
    """All that is recorded of one tool and one failure mode."""

    tool: str
    failure_mode: str
    failures: tuple[Failure, ...]
    successes: tuple[ToolInvocation, ...]
    others: tuple[ToolInvocation, ...] = ()  # successful calls of other tools in the same sessions


def gather(calls: Iterable[ToolInvocation], tool: str, failure_mode: str) -> Evidence:
    """Sort the calls of some sessions into the evidence for one (tool, failure mode).

    Args:
        calls: every call of the sessions that matter, in any order; calls that never ran or were given up are left out.
        tool: name of the tool.
        failure_mode: level-1 mode; deeper modes of it count too.
    """
    sessions: dict[str, list[ToolInvocation]] = defaultdict(list)
    for call in calls:
        if call.ran and not call.abandoned:
            sessions[call.session_id].append(call)
    failures: list[Failure] = []
    successes: list[ToolInvocation] = []
    others: list[ToolInvocation] = []
    for session in sorted(sessions):
        ordered = sorted(sessions[session], key=lambda call: call.seq)
        for place, call in enumerate(ordered):
            if call.tool != tool:
                if call.outcome is Outcome.SUCCESS:
                    others.append(call)
            elif call.outcome is Outcome.SUCCESS:
                successes.append(call)
            elif (
                call.failed and (call.failure_mode or "").partition(".")[0] == failure_mode.partition(".")[0]
            ):
                failures.append(_failure(ordered, place))
    return Evidence(
        tool=tool,
        failure_mode=failure_mode,
        failures=tuple(failures),
        successes=tuple(successes),
        others=tuple(others),
    )


def _failure(ordered: list[ToolInvocation], place: int) -> Failure:
    call = ordered[place]
    between: list[ToolInvocation] = []
    for later in ordered[place + 1 :]:
        if later.tool == call.tool and later.outcome is Outcome.SUCCESS:
            return Failure(call=call, between=tuple(between), recovery=later)
        if later.tool != call.tool and later.outcome is Outcome.SUCCESS:
            between.append(later)
    return Failure(call=call)
