"""What a failed call says: comes in its error or result, goes out one message and the template that signs it.

The text of a call and the line of a log go through the same door, so that the same error has one signature in both.
"""

from __future__ import annotations

from sitoolkit.logs.events import LogEvent, read_events
from sitoolkit.logs.lines import parse_line
from sitoolkit.records import Outcome, ToolInvocation
from sitoolkit.signatures import mask_message, signature_id

__all__ = ["bare_message", "call_error", "call_signature", "error_message", "error_template"]


def error_message(text: str) -> LogEvent | None:
    """The event that an error text describes: its message without time, level and logger, or its traceback.

    >>> error_message("2026-01-02 03:04:05 ERROR app: Error: no such user").message
    'no such user'
    """
    text = text.strip()
    if not text:
        return None
    if "\n" not in text:
        parsed = parse_line(text)
        return LogEvent(bare_message(parsed.message), parsed.level, parsed.time, parsed.logger, 1, text=text)
    best: LogEvent | None = None
    for event in read_events(text.splitlines()):
        if event.exception:
            return event
        if best is None or (best.level not in ("error", "critical") and event.level in ("error", "critical")):
            best = event
    return best


def bare_message(message: str) -> str:
    """A message may carry a level of its own behind the head of its line: `ERROR app: Error: x` is about x."""
    for _ in range(2):
        parsed = parse_line(message)
        if not parsed.headed or parsed.time is not None or not parsed.message.strip():
            break
        message = parsed.message
    return message.strip()


def error_template(event: LogEvent) -> tuple[str, bool]:
    """The template that signs an event, and whether likeness may merge it with others."""
    if event.exception and event.frame:
        return f"{event.exception} at {event.frame}", False
    return mask_message(bare_message(event.message) or event.message), True


def call_error(call: ToolInvocation) -> str:
    """What a failed call said: its error, else its result's text, else how it ended."""
    if call.error:
        return call.error
    if isinstance(call.result, str) and call.result.strip():
        return call.result
    if isinstance(call.result, dict):
        for key in ("error", "message", "detail", "exception", "reason", "stderr", "traceback"):
            value = call.result.get(key)
            if isinstance(value, str) and value.strip():
                return value
            if isinstance(value, dict) and isinstance(value.get("message"), str):
                return str(value["message"])
    ended = (
        "timed out" if call.outcome is Outcome.TIMEOUT else f"failed with {call.failure_mode or 'no message'}"
    )
    return f"{call.tool} {ended}"


def call_signature(call: ToolInvocation) -> tuple[str, str]:
    """The signature id and template of a failed call, taken alone."""
    event = error_message(call_error(call))
    template = error_template(event)[0] if event else "failed without a message"
    return signature_id(template), template
