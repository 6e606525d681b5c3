"""One meaning of an outcome: in comes a tool result with all that the harness says about it, out come outcome and failure mode.

Evidence is weighed in this order, and the first that speaks decides: flags (`is_error`), status words, exit codes, typed
errors, a failure envelope in the result (`{"success": false}`), an exit marker in the text, then, only where nothing
above said that the call went well, the text itself. A good flag or status yields to an envelope and to an exit marker,
since many harnesses set it for "the tool returned", and to nothing weaker: a result that quotes an error is a success.
Each verdict names its rule; `RULES` lists them; `rules_off` switches some off; `add_rule` and the entry point group
`sitoolkit.failure_rules` add modes of the form `MODE.DETAIL`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from sitoolkit.errors import ParameterError
from sitoolkit.failure_patterns import (
    CANCELLED_SIGNS,
    CANCELLED_TEXT,
    CANCELLED_WORDS,
    ERROR_HEAD,
    ERROR_KEYS,
    EXIT_MARKER,
    EXIT_MODES,
    EXIT_SIGNS,
    FAILED_WORDS,
    GOOD_WORDS,
    HTTP_CODE,
    HTTP_MODES,
    LAST_EXCEPTION,
    MODES,
    NAME_PARTS,
    NOT_FOUND_FIRST,
    PAYLOAD_KEYS,
    PLEA,
    PROGRAM_MODES,
    PROGRAM_TEXT,
    PROGRAM_TOOLS,
    QUOTING_WORDS,
    SHELL_ERROR,
    SHELL_SIGNS,
    SHORT_COMPLAINT,
    STATUS_KEYS,
    STATUS_TYPES,
    TESTS_FAILED,
    TIMEOUT_WORDS,
    TYPED_MODES,
    WORK_DONE,
)
from sitoolkit.records import FailureMode, Outcome

__all__ = ["RULES", "Rule", "Verdict", "add_rule", "classify_failure", "judge", "rules_off"]

SUCCESS, FAILURE, TIMEOUT = Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT
CANCELLED, UNKNOWN = Outcome.CANCELLED, Outcome.UNKNOWN
_HEAD, _TAIL = 600, 400  # characters at the start and the end of a text in which it says how it ended
_REPEATED_CHARS = 400  # texts up to this are remembered with their verdict
_ERROR_CHARS = 2000  # an error message is cut to this


class Verdict(NamedTuple):
    """How a call ended, the mode if it failed, the error's text, and the rule that decided."""

    outcome: Outcome
    failure_mode: str | None
    error: str | None
    rule: str


@dataclass(frozen=True)
class Rule:
    """One rule: `kind` is `outcome` (decides whether a call failed) or `mode` (names the failure mode)."""

    name: str
    kind: str
    says: str
    mode: str | None = None
    pattern: re.Pattern[str] | None = None
    test: Callable[[str, str], bool] | None = None  # (error text, tool)


RULES: tuple[Rule, ...] = (
    Rule("flag", "outcome", "the harness's own error flag (is_error, isError) is set"),
    Rule("flag-ok", "outcome", "the harness's own error flag is explicitly false"),
    Rule("status", "outcome", "a status word: error, failed, timeout, cancelled … or success, completed …"),
    Rule("exit-code", "outcome", "an exit code beside the result: 0 is a success, 124 a time-out, 130 cancelled, else a failure"),
    Rule("typed-error", "outcome", "an error object or exception class beside the result"),
    Rule("envelope", "outcome", "the result itself says success/ok false, status error, isError true or a non-empty error"),
    Rule("exit-marker", "outcome", "the result's text names a non-zero exit code: [Command failed with exit code 2]"),
    Rule("exit-marker-ok", "outcome", "the result's text names exit code 0"),
    Rule("text-cancelled", "outcome", "the text begins by saying that a user or the harness stopped the call"),
    Rule("text-timeout", "outcome", "the text begins as an error and says that time ran out"),
    Rule("text-error", "outcome", "the text begins as an error message, and no later line reports work that was done"),
    Rule("text-complaint", "outcome", "the whole text is one short complaint: service not found, Request timed out"),
    Rule("text-shell", "outcome", "the text ends with a shell's complaint: command not found, No such file or directory"),
    Rule("text-traceback", "outcome", "the text ends with a Python traceback's last line"),
    Rule("text-tests", "outcome", "the text ends with a test run's count of failures: 1 failed, 3 passed in 0.12s"),
    Rule("text-plea", "outcome", "the text asks the model to fix its call"),
    Rule("result", "outcome", "a result came and nothing says that it failed"),
    Rule("no-result", "outcome", "no result was seen: unknown, neither success nor failure"),
    *(Rule(f"mode:{name}", "mode", f"the error text reads like {mode.value}", mode.value, re.compile(pattern, re.I | re.M)) for name, mode, pattern in MODES),
    Rule("mode:typed", "mode", "the class or type of the error names the mode"),
    Rule("mode:http", "mode", "an HTTP status code names the mode"),
    Rule("mode:exit", "mode", "exit code 124, 126 or 127 names the mode"),
    Rule("mode:other", "mode", "nothing else fits: RUNTIME", FailureMode.RUNTIME.value),
)  # fmt: skip
_RULE_BY_NAME = {rule.name: rule for rule in RULES}
_MODE_RULES = tuple(rule for rule in RULES if rule.kind == "mode" and rule.pattern)
_OFF: ContextVar[frozenset[str]] = ContextVar("sitoolkit_failure_rules_off", default=frozenset())
_ADDED: list[Rule] = []


@contextmanager
def rules_off(*names: str) -> Iterator[None]:
    """Judge without some rules.

    >>> with rules_off("exit-marker"):
    ...     judge("[Command failed with exit code 2]", status="success").outcome

    Raises:
        ParameterError: no rule has that name.
    """
    for name in names:
        if name not in _RULE_BY_NAME and all(rule.name != name for rule in _ADDED):
            raise ParameterError(
                f"no failure rule is named {name!r}; known: {', '.join(sorted(_RULE_BY_NAME))}"
            )
    token = _OFF.set(_OFF.get() | set(names))
    try:
        yield
    finally:
        _OFF.reset(token)


def add_rule(rule: Rule) -> None:
    """Add a rule that names a mode, usually `MODE.DETAIL`; it is asked before the built-in ones.

    >>> add_rule(Rule("acme-quota", "mode", "the quota of Acme is used up", "NETWORK.QUOTA", re.compile("ACME-17")))

    Raises:
        ParameterError: it names no known mode, or has neither pattern nor test.
    """
    if rule.mode is None or rule.mode.partition(".")[0] not in FailureMode.__members__:
        raise ParameterError(
            f"rule {rule.name!r}: {rule.mode!r} does not begin with one of {', '.join(FailureMode)}"
        )
    if rule.pattern is None and rule.test is None:
        raise ParameterError(f"rule {rule.name!r} has neither a pattern nor a test")
    _ADDED[:] = [known for known in _ADDED if known.name != rule.name] + [rule]


@lru_cache(maxsize=1)
def _load_plugins() -> tuple[str, ...]:
    """Rules of installed packages; a faulty one is skipped and named in the answer."""
    from importlib.metadata import entry_points

    faults = []
    for entry in entry_points(group="sitoolkit.failure_rules"):
        try:
            found = entry.load()
            for rule in found() if callable(found) else found:
                add_rule(rule)
        except Exception as fault:  # noqa: BLE001 - a plugin may raise anything and must not stop the reading
            faults.append(f"{entry.name}: {fault}")
    return tuple(faults)


# ---------------------------------------------------------------- the judgement


def judge(
    result: Any,
    *,
    status: str | int | None = None,
    is_error: bool | None = None,
    exit_code: int | None = None,
    error: Any = None,
    typed_error: str | None = None,
    tool: str = "",
    answered: bool | None = None,
) -> Verdict:
    """Decide how a call ended.

    >>> judge('{"success": 0, "error": "no such user"}').failure_mode
    'NOTFOUND'

    Args:
        result: what the tool returned: text or a JSON value; `None` where nothing came.
        status: the harness's status word.
        is_error: the harness's flag; `False` only where the harness says so explicitly.
        exit_code: of the process behind the tool.
        error: an error text or object beside the result.
        typed_error: class or type of the error (`TimeoutError`, `file_not_found`).
        tool: name of the tool; tools that show text of others (read, grep, search …) are judged by text more carefully.
        answered: whether a result came at all; by default, whether any of the above is given.
    """
    off = _OFF.get()
    if is_error is status is exit_code is error is typed_error is None:
        if answered is None:
            answered = result is not None
        if not answered:
            return _NO_RESULT
        if type(result) is str:
            return _by_result_alone(result, tool, off)
    text = _text_of(result)
    told = _text_of(error) if error not in (None, "", False, {}, []) else ""
    if is_error and "flag" not in off:
        return _failed(told or text, "flag", tool, typed_error, exit_code, off)
    word = str(status).strip().lower().replace(" ", "_") if status is not None and "status" not in off else ""
    if word in TIMEOUT_WORDS:
        return Verdict(TIMEOUT, FailureMode.TIMEOUT.value, _cut(told or text) or f"status {status}", "status")
    if word in CANCELLED_WORDS:
        return Verdict(CANCELLED, None, _cut(told or text) or f"status {status}", "status")
    if len(word) == 3 and word.isdigit() and word[0] in "45":
        mode = HTTP_MODES.get(int(word), FailureMode.ARGS if word[0] == "4" else FailureMode.RUNTIME)
        outcome = TIMEOUT if mode is FailureMode.TIMEOUT else FAILURE
        return Verdict(outcome, mode.value, _cut(told or text) or f"status {status}", "status")
    if word in FAILED_WORDS or word in STATUS_TYPES:
        return _failed(told or text, "status", tool, typed_error or STATUS_TYPES.get(word), exit_code, off)
    if isinstance(exit_code, int) and exit_code != 0 and "exit-code" not in off:
        return _failed(told or text, "exit-code", tool, typed_error, exit_code, off)
    if (told or typed_error) and "typed-error" not in off:
        return _failed(told or text, "typed-error", tool, typed_error, exit_code, off)
    envelope = _envelope(result, tool) if "envelope" not in off else None
    if envelope is not None and envelope.rule == "envelope":
        return _failed(envelope.error or text, "envelope", tool, envelope.failure_mode, None, off)
    marker = _exit_marker(text) if text else None
    if marker and "exit-marker" not in off:
        return _failed(text, "exit-marker", tool, None, marker, off)
    if isinstance(exit_code, int) and "exit-code" not in off:
        return Verdict(SUCCESS, None, None, "exit-code")
    if is_error is False and "flag-ok" not in off:
        return Verdict(SUCCESS, None, None, "flag-ok")
    if word in GOOD_WORDS or (len(word) == 3 and word.isdigit() and word[0] == "2"):
        return Verdict(SUCCESS, None, None, "status")
    if envelope is not None:
        return Verdict(SUCCESS, None, None, "result")
    if marker == 0 and "exit-marker-ok" not in off:
        return Verdict(SUCCESS, None, None, "exit-marker-ok")
    if text:
        verdict = _by_text(text, tool, off)
        if verdict is not None:
            return verdict
    if answered is None:
        answered = result is not None or word != "" or is_error is not None
    return _RESULT if answered else _NO_RESULT


def _by_result_alone(text: str, tool: str, off: frozenset[str]) -> Verdict:
    """The harness says nothing beside the text of the result: the path of nearly every call of a chat transcript."""
    first = text[:1]
    if first.isspace() or text[-1:].isspace():
        text = text.strip()
        first = text[:1]
    if first == "[" and '"error"' in text[:16] and text[-1:] == "]":
        envelope = _envelope(text, tool) if "envelope" not in off else None
        if envelope is not None and envelope.rule == "envelope":
            return _failed(envelope.error or text, "envelope", tool, envelope.failure_mode, None, off)
    if first == "[" and text[1:2] in ("{", "[", '"', "]") and text[:9] != '[{"type":':
        return _RESULT  # a JSON list is an answer
    if first == "{" and text[-1:] == "}":
        envelope = _envelope(text, tool) if "envelope" not in off else None
        if envelope is not None and envelope.rule == "envelope":
            return _failed(envelope.error or text, "envelope", tool, envelope.failure_mode, None, off)
        return _RESULT
    marker = _exit_marker(text)
    if marker and "exit-marker" not in off:
        return _failed(text, "exit-marker", tool, None, marker, off)
    if marker == 0 and "exit-marker-ok" not in off:
        return Verdict(SUCCESS, None, None, "exit-marker-ok")
    return _by_text(text, tool, off) or _RESULT


_RESULT = Verdict(SUCCESS, None, None, "result")
_NO_RESULT = Verdict(UNKNOWN, None, None, "no-result")


def _failed(
    text: str, rule: str, tool: str, typed: str | None, exit_code: int | None, off: frozenset[str]
) -> Verdict:
    """A call that failed for certain: was it stopped, did time run out, or which mode."""
    head = text[:_HEAD]
    if exit_code is None and typed is None and text:
        exit_code = _exit_marker(text)
    if "text-cancelled" not in off and (exit_code == 130 or CANCELLED_TEXT.search(head)):
        return Verdict(CANCELLED, None, _cut(text), rule)
    mode = classify_failure(text, typed_error=typed, exit_code=exit_code, tool=tool)
    outcome = TIMEOUT if mode.partition(".")[0] == FailureMode.TIMEOUT else FAILURE
    return Verdict(
        outcome, mode, _cut(text) or typed or (f"exit code {exit_code}" if exit_code else "no message"), rule
    )


def classify_failure(
    text: str, *, typed_error: str | None = None, exit_code: int | None = None, tool: str = ""
) -> str:
    """The failure mode of an error: by plugins' rules, by its type, by exit code, by HTTP status, by its words, else RUNTIME.

    >>> classify_failure("bash: foo: command not found")
    'TOOL_GAP'
    """
    off = _OFF.get()
    _load_plugins()
    for rule in _ADDED:
        if rule.name not in off and (
            (rule.pattern and rule.pattern.search(text)) or (rule.test and rule.test(text, tool))
        ):
            return rule.mode or FailureMode.RUNTIME.value
    if typed_error and "mode:typed" not in off:
        mode = _typed_mode(typed_error)
        if mode:
            return mode.value
    if exit_code in EXIT_MODES and "mode:exit" not in off:
        return EXIT_MODES[exit_code].value
    window = text if len(text) <= 2 * _HEAD else text[:_HEAD] + "\n" + text[-_HEAD:]
    named = _exception_name(window)
    if named and "mode:typed" not in off:
        mode = _typed_mode(named[0])
        if mode is not None and not (named[1] and mode is FailureMode.ARGS):
            return mode.value
        if (
            named[1] and mode is not None
        ):  # a program of the agent's own raised it: no fault of the call's arguments
            return FailureMode.RUNTIME.value
    if "mode:http" not in off:
        code = HTTP_CODE.search(window)
        if code:
            http = HTTP_MODES.get(int(code.group(1) or code.group(2) or code.group(3)))
            if http:
                return http.value
    if exit_code is not None or _runs_programs(
        tool
    ):  # the output of a program: a word in it is not what the program died of
        return _program_mode(window, off)
    first_line = window.lstrip().partition("\n")[0]
    for part in (first_line, window) if first_line != window else (window,):
        for rule in _MODE_RULES:
            if rule.name not in off and rule.pattern and rule.pattern.search(part):
                if rule.mode == FailureMode.ARGS and NOT_FOUND_FIRST.search(part):
                    return FailureMode.NOTFOUND.value
                return rule.mode or FailureMode.RUNTIME.value
    return FailureMode.RUNTIME.value


def _program_mode(window: str, off: frozenset[str]) -> str:
    for rule in _MODE_RULES:
        name = rule.name.removeprefix("mode:")
        if name in PROGRAM_MODES and rule.name not in off and rule.pattern and rule.pattern.search(window):
            return rule.mode or FailureMode.RUNTIME.value
    for name, mode, pattern in PROGRAM_TEXT:
        if name not in off and pattern.search(window):
            return mode.value
    return FailureMode.RUNTIME.value


def _typed_mode(name: str) -> FailureMode | None:
    key = re.sub(r"[^a-z]", "", name.rpartition(".")[2].lower())
    found = TYPED_MODES.get(key)
    if found:
        return found
    for ending in ("error", "exception", "failure", "err"):
        if key.endswith(ending) and key[: -len(ending)] in TYPED_MODES:
            return TYPED_MODES[key[: -len(ending)]]
    return None


_EXCEPTION = re.compile(
    r"(?:^|\n|: |\")[ \t]{0,12}((?:[a-zA-Z_]\w*\.)*[A-Z][A-Za-z]{2,60}(?:Error|Exception|NotFound|Denied|Expired))\b\s*[:(]"
)


def _exception_name(text: str) -> tuple[str, bool] | None:
    """The last exception named in a text and whether it stands in a traceback."""
    found = _EXCEPTION.findall(text)
    return (found[-1], "Traceback (most recent call last)" in text) if found else None


def _exit_marker(text: str) -> int | None:
    """The exit code that a text's first or last lines name."""
    for part in (text[:200], text[-300:]) if len(text) > 500 else (text,):
        low = part.lower()
        if any(sign in low for sign in EXIT_SIGNS):
            found = list(EXIT_MARKER.finditer(part))
            if found:
                return int(next(group for group in found[-1].groups() if group is not None))
    return None


def _envelope(result: Any, tool: str) -> Verdict | None:
    """What a result says of itself: a failing verdict (rule `envelope`), a good one, or nothing."""
    if isinstance(result, str):
        text = result.strip()
        if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]") or len(text) > 1_000_000:
            return None
        try:
            result = orjson.loads(text)
        except orjson.JSONDecodeError:
            result = _python_literal(text)
    if isinstance(result, list) and len(result) == 1:
        result = result[0]
    if not isinstance(result, Mapping):
        return None
    inner = result
    error = inner.get("error", inner.get("errors", inner.get("error_message", inner.get("exception"))))
    message = _text_of(error) if error not in (None, "", False, True, 0, [], {}) else ""
    message = message or _text_of(
        inner.get("message") or inner.get("detail") or inner.get("reason") or inner.get("stderr") or ""
    )
    good = False
    for key in ("success", "ok", "succeeded", "is_success", "isSuccess"):
        if key in inner:
            value = inner[key]
            if (
                value is False
                or (value == 0 and isinstance(value, int))
                or (isinstance(value, str) and value.lower() in ("false", "no", "failed"))
            ):
                return Verdict(FAILURE, _type_in(inner), message, "envelope")
            good = good or value is True or value == 1
    for key in ("isError", "is_error", "failed", "hasError"):
        if inner.get(key) is True:
            return Verdict(FAILURE, _type_in(inner), message or _text_of(inner.get("content")), "envelope")
    for key in ("exit_code", "exitCode", "returncode", "return_code"):
        code = inner.get(key)
        if isinstance(code, int) and not isinstance(code, bool):
            if code != 0:
                return Verdict(
                    FAILURE,
                    "timeout" if code == 124 else None,
                    message or _text_of(inner.get("stdout") or inner.get("output") or ""),
                    "envelope",
                )
            good = True
    word = inner.get("status")
    if isinstance(word, str):
        word = word.strip().lower()
        if word in TIMEOUT_WORDS:
            return Verdict(TIMEOUT, "timeout", message, "envelope")
        if word in ("error", "failed", "failure", "fail", "errored", "exception", "unsuccessful") and (
            ERROR_KEYS & inner.keys() or inner.keys() <= STATUS_KEYS
        ):
            return Verdict(FAILURE, _type_in(inner), message or word, "envelope")
        good = good or (word in ("success", "ok", "succeeded") and error in (None, "", False, 0, [], {}))
    code = _http_code(word) or _http_code(inner.get("statusCode", inner.get("status_code")))
    message = message or _text_of(inner.get("msg") or "")
    if code and message and not any(inner.get(key) for key in PAYLOAD_KEYS):
        return Verdict(FAILURE, _type_in(inner), f"{code} {message}", "envelope")
    if good:
        return Verdict(SUCCESS, None, None, "result")
    if error not in (None, "", False, 0, [], {}) and (
        "error" in inner or "errors" in inner or "error_message" in inner or "exception" in inner
    ):
        if any(inner.get(key) not in (None, "", [], {}, False) for key in PAYLOAD_KEYS):
            return Verdict(SUCCESS, None, None, "result")
        if _quotes(tool) and len(inner) > 3:
            return None
        return Verdict(FAILURE, _type_in(inner), message, "envelope")
    return Verdict(SUCCESS, None, None, "result") if "error" in inner or "errors" in inner else None


def _python_literal(text: str) -> Any:
    """The value of a printed Python dict, as tools that return `str(result)` write it; `None` if it is none."""
    if text[:2] not in ("{'", '{"') or len(text) > 20_000:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _type_in(envelope: Mapping[str, Any]) -> str | None:
    error = envelope.get("error")
    for holder in (error, envelope):
        if isinstance(holder, Mapping):
            for key in ("type", "code", "error_type", "errorType", "name", "error_code"):
                value = holder.get(key)
                if isinstance(value, str) and _typed_mode(value):
                    return value
    return None


def _http_code(value: Any) -> int | None:
    """A status that is an HTTP error code, as number or as text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) == 3:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def _by_text(text: str, tool: str, off: frozenset[str]) -> Verdict | None:
    """The verdict of a text; short ones repeat a hundred times in a transcript and are judged once."""
    if len(text) <= _REPEATED_CHARS:
        return _by_short_text(text, tool, off, tuple(_ADDED))
    return _judge_text(text, tool, off)


@lru_cache(maxsize=4096)
def _by_short_text(text: str, tool: str, off: frozenset[str], added: tuple[Rule, ...]) -> Verdict | None:
    return _judge_text(text, tool, off)


def _judge_text(text: str, tool: str, off: frozenset[str]) -> Verdict | None:
    """Only the text is left: a short text that reads as an error is one, a text that quotes errors is not."""
    head = text[:_HEAD]
    quoting = _quotes(tool)
    lines = head.strip().count("\n") + 1
    if quoting and (lines > 4 or len(text) > _HEAD):
        return None
    if (
        "text-cancelled" not in off
        and len(text) < 1200
        and any(sign in head.lower() for sign in CANCELLED_SIGNS)
    ):
        stopped = CANCELLED_TEXT.search(head)
        if stopped and head[: stopped.start()].count("\n") <= 1:
            return Verdict(CANCELLED, None, _cut(text), "text-cancelled")
    if ERROR_HEAD.match(head) and not (lines > 1 and WORK_DONE.search(text[: 4 * _HEAD].partition("\n")[2])):
        verdict = _failed(text, "text-error", tool, None, None, off)
        rule = "text-timeout" if verdict.outcome is TIMEOUT else "text-error"
        if rule not in off:
            return verdict._replace(rule=rule)
        return None
    if quoting:
        return None
    if len(text) < 200 and "text-complaint" not in off and SHORT_COMPLAINT.match(text):
        return _failed(text.strip(), "text-complaint", tool, None, None, off)
    tail = text[-_TAIL:].rstrip()
    if (
        "text-shell" not in off
        and len(text) < 2000
        and any(sign in tail[-80:].lower() for sign in SHELL_SIGNS)
        and SHELL_ERROR.search(tail)
    ):
        return _failed(text, "text-shell", tool, None, None, off)
    if "text-traceback" not in off and "Traceback (most recent call last)" in text:
        last = tail.rpartition("\n")[2].strip()
        if LAST_EXCEPTION.match(last):
            return _failed(text, "text-traceback", tool, None, None, off)
    if "text-tests" not in off and TESTS_FAILED.search(tail if len(text) > _HEAD else text.rstrip()):
        told = [line[1:].strip() for line in text.split("\n") if line.startswith("E   ")]
        verdict = _failed("\n".join(told) or text, "text-tests", tool, None, None, off)
        return verdict._replace(error=_cut(text))
    if (
        "text-plea" not in off
        and len(text) < 4000
        and ("again" in tail or "mistakes" in tail)
        and PLEA.search(tail)
    ):
        return _failed(text, "text-plea", tool, None, None, off)
    return None


@lru_cache(maxsize=4096)
def _runs_programs(tool: str) -> bool:
    """Does the tool run programs, so that its text is theirs?"""
    return any(part.lower() in PROGRAM_TOOLS for part in NAME_PARTS.findall(tool))


@lru_cache(maxsize=4096)
def _quotes(tool: str) -> bool:
    """Does the tool show text of others?"""
    return any(part.lower() in QUOTING_WORDS for part in NAME_PARTS.findall(tool))


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in ("message", "error", "detail", "text", "content", "msg", "stderr", "reason", "data"):
            inner = value.get(key)
            if isinstance(inner, str) and inner:
                return inner
            if key in ("error", "data") and isinstance(inner, Mapping):
                return _text_of(inner)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, Mapping) and isinstance(item.get("text"), str) for item in value)
    ):
        return "\n".join(item["text"] for item in value)
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):
        return str(value)


def _cut(text: str) -> str | None:
    text = text.strip()
    if len(text) <= _ERROR_CHARS:
        return text or None
    half = _ERROR_CHARS // 2 - 20
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
