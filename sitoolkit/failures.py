"""One meaning of an outcome: in comes a tool result with all that the harness says about it, out come outcome and failure mode.

Evidence is weighed in this order, and the first that speaks decides: flags (`is_error`), status words, exit codes, typed
errors, a failure envelope in the result (`{"success": false}`), an exit marker in the text, then, only where nothing
above said that the call went well, the text itself. A good flag or status yields to an envelope and to an exit marker,
since many harnesses set it for "the tool returned", and to nothing weaker: a result that quotes an error is a success.
Each verdict names its rule; `RULES` lists them; `rules_off` switches some off; `add_rule` and the entry point group
`sitoolkit.failure_rules` add modes of the form `MODE.DETAIL`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from sitoolkit.errors import ParameterError
from sitoolkit.records import FailureMode, Outcome

__all__ = ["RULES", "Rule", "Verdict", "add_rule", "classify_failure", "judge", "rules_off"]

SUCCESS, FAILURE, TIMEOUT = Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT
CANCELLED, UNKNOWN = Outcome.CANCELLED, Outcome.UNKNOWN
_HEAD, _TAIL = 600, 400  # characters at the start and the end of a text in which it says how it ended
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


# ---------------------------------------------------------------- words

_FAILED_WORDS = frozenset({
    "error", "failed", "failure", "fail", "errored", "exception", "crashed", "rejected", "denied", "invalid", "status_code_error",
    "incomplete", "fatal", "not_ok", "unsuccessful", "err", "ko", "aborted_with_error", "output-error", "tool_error", "2",
    "agenterror",
})  # fmt: skip
_TIMEOUT_WORDS = frozenset({"timeout", "timed_out", "timedout", "deadline_exceeded", "time_out"})
_CANCELLED_WORDS = frozenset({
    "cancelled", "canceled", "aborted", "interrupted", "killed", "skipped", "declined", "user_rejected", "rejected_by_user",
    "user_cancelled", "denied_by_user", "output-denied",
})  # fmt: skip
_GOOD_WORDS = frozenset({
    "success", "succeeded", "ok", "completed", "complete", "done", "finished", "passed", "successful", "output-available",
    "finished_successfully", "status_code_ok", "200", "1",
})  # fmt: skip
_TYPED = (
    (FailureMode.TIMEOUT, "timeout timeouterror timeoutexpired timeoutexception deadlineexceeded readtimeout connecttimeout timedout timelimit"),
    (FailureMode.PERM, "permission permissionerror permissiondenied permissiondeniederror unauthorized forbidden accessdenied accessdeniedexception authenticationerror authorizationerror approval unauthenticated eacces eperm sandboxdenied policyviolation"),
    (FailureMode.NOTFOUND, "notfound notfounderror filenotfound filenotfounderror keyerror lookuperror indexerror modulenotfounderror doesnotexist enoent nosuchelementexception resourcenotfoundexception nosuchkey importerror"),
    (FailureMode.TOOL_GAP, "notimplementederror notimplemented unknowntool toolnotfound toolnotfounderror unsupported unsupportedoperation unimplemented commandnotfound nosuchtool invalidtool unavailabletool methodnotfound unknowntoolerror ainosuchtoolerror"),
    (FailureMode.SYNTAX, "syntaxerror indentationerror jsondecodeerror parseerror parsererror parsing taberror unicodedecode unicodedecodeerror formaterror"),
    (FailureMode.CONFLICT, "conflict conflicterror fileexistserror alreadyexists alreadyexistserror integrityerror eexist resourceconflict failedprecondition aborted optimisticlockerror isadirectory isadirectoryerror notadirectoryerror"),
    (FailureMode.NETWORK, "connectionerror connectionrefusederror connectionreseterror connectionabortederror connecterror gaierror sslerror networkerror ratelimiterror ratelimit toomanyrequests apiconnectionerror serviceunavailable unavailable proxyerror urlerror brokenpipeerror remotedisconnected"),
    (FailureMode.ARGS, "validationerror valueerror typeerror badrequest badrequesterror invalidargument invalidargumenterror argumenterror invalidparams invalidinput inputvalidationerror missingargument unprocessableentity toolinputerror modelretry tooluseerror tooluse_failed toolusefailed schemaerror invalidrequesterror outofrange limit outputlimit"),
)  # fmt: skip
_TYPED_MODES = {word: mode for mode, words in _TYPED for word in words.split()}
_QUOTING_WORDS = frozenset({
    "read", "cat", "view", "grep", "search", "tail", "head", "log", "logs", "diff", "fetch", "open", "show", "glob", "find",
    "query", "scroll", "browse", "recall", "retrieve",
})  # fmt: skip
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# ---------------------------------------------------------------- text

_CANCELLED_TEXT = re.compile(
    r"doesn't want to (?:proceed|take this action)|\[?request (?:was )?(?:interrupted|aborted|cancell?ed) by (?:the )?user"
    r"|(?:cancell?ed|aborted|interrupted|rejected|declined|skipped|denied|stopped|refused) by (?:the )?user"
    r"|user (?:has )?(?:rejected|declined|cancell?ed|aborted|interrupted|denied|skipped|refused)\b"
    r"|tool use was rejected|(?:operation|command|call|execution|request|task|tool) (?:was |has been )?(?:cancell?ed|aborted|interrupted)\b"
    r"|\bcancellederror\b|^\W{0,3}(?:keyboardinterrupt|cancell?ed|aborted|interrupted)\W{0,3}$",
    re.I | re.M,
)
_TIMEOUT_TEXT = re.compile(
    r"\btimed[ -]?out\b|\btime[ -]?out(?:error|expired|exception)?\b(?!\s*[=(]|\s*:\s*\d|s\b)|deadline exceeded|\bETIMEDOUT\b"
    r"|time limit (?:exceeded|reached)|took too long|no (?:new )?output (?:for|after) \d+",
    re.I,
)
_EXIT_MARKER = re.compile(
    r"(?:\[?(?:the )?(?:command|process|shell|script|program|task)[^\n\]]{0,60}?(?:failed|exited|completed|finished|terminated|ended|returned)[^\n\]]{0,30}?(?:exit |return |status )?(?:code|status)[: =]{0,3}(?P<a>-?\d{1,5}))"
    r"|(?:^|\n|\(|\[|<|: )\s*(?:error: )?(?:exit|return)[ _-]?(?:code|status)\s*[:=]?\s*(?P<b>-?\d{1,5})\b"
    r"|<(?:returncode|exit_code|exitcode)>\s*(?P<c>-?\d{1,5})"
    r"|returned non-zero exit status (?P<d>-?\d{1,5})"
    r"|(?:^|\n)\[?(?:exited|exit) (?:with )?(?:code |status )?(?P<e>-?\d{1,5})\]?\s*(?:\n|$)"
    r"|\bexited with (?:code|status) (?P<f>-?\d{1,5})\b"
    r"|\[?command failed with exit code (?P<g>-?\d{1,5})",
    re.I,
)
_ERROR_HEAD = re.compile(
    r"\A[\s\"'`*#>\[(]{0,8}(?:[\u274c\u2717\u2718\u26d4\U0001f6ab]\s*|<(?:tool_use_error|error|stderr_error)>|"
    r"(?:[a-z0-9_./-]{1,60}: ){0,3}?(?:"
    r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w{0,60}(?:Error|Exception|Failure|Interrupt|Denied|NotFound)\b\s*[:(\[]"
    r"|traceback \(most recent call last\)"
    r"|(?:internal |fatal |tool |server |execution |runtime |system |api |http |client |unexpected |unknown |validation |database |query |command |mcp |the following )?(?:error|failure|exception|fatal|panic|err)\b\]?\W{0,3}(?:\([^)\n]{1,60}\)|\[[^\]\n]{1,60}\]|code|no\.?|#)?\s*\d{0,5}\s*(?:[:\u2013]|- )\s*(?!\s*(?:0|none|null|false|no errors?|\"\"|'')\b)\S"
    r"|(?:an? |the )?(?:unexpected |internal |unknown )?(?:error|exception) (?:occurr?ed|executing|calling|invoking|running|while|during|when|reading|writing|parsing|processing|fetching|creating|updating|deleting|in tool|from|opening|accessing|loading|applying|editing|searching|connecting|trying|getting)\b"
    r"|(?:failed|unable) to \w|(?:could not|couldn't|cannot|can't) \w"
    r"|(?:tool|function|command|request|call|execution|operation|action|query|script|edit|patch|build|test|upload|download|deploy(?:ment)?)\b[^\n]{0,80}? (?:has )?(?:failed|errored|not found|does not exist|doesn't exist|is not (?:available|defined|registered|supported|allowed))\b(?! tests?\b)"
    r"|failed\W{0,2}(?:$|\n|:|- )|failure\W{0,2}(?:$|\n)|error\W{0,2}(?:$|\n)"
    r"|(?:unknown|no such|invalid|unrecognized|unsupported|undefined) (?:tool|function|command|action|method|option|argument|parameter|operation)s?\b"
    r"|invalid (?:arguments?|parameters?|input|request|json|syntax|value|format|action|path|date|id)\b"
    r"|missing (?:required )?(?:arguments?|parameters?|field|property|value)\b"
    r"|\d+ validation errors?\b|input validation|permission denied|access (?:is )?denied|operation not permitted|not authorized|unauthorized|forbidden\b"
    r"|(?:http(?:/\d(?:\.\d)?)? ?(?:error |status )?|status(?: code)?:? )?(?:4\d\d|5\d\d)(?: client error| server error|:? (?:bad request|unauthorized|forbidden|not found|conflict|gone|unprocessable|too many|internal|bad gateway|service unavail|gateway time))"
    r"|request failed with status(?: code)? [45]\d\d|connection (?:refused|reset|error|failed)|network (?:error|is unreachable)"
    r"|no such file or directory|file not found|file does not exist|not found\W{0,2}(?:$|\n)|something went wrong|oops\b"
    r"|rate limit|too many requests|quota exceeded|syntax error|segmentation fault|killed\W{0,2}$|out of memory|command timed out|timed out\b|timeout\b(?! *[=:] *\d)|operation timed out"
    r"))",
    re.I,
)
_SHELL_ERROR = re.compile(
    r"(?:^|\n)(?:[\w./~+-]{1,80}: ){1,4}(?:line \d+: )?[^\n:]{0,120}?:? ?(?:command not found|no such file or directory|permission denied|not a directory|is a directory|operation not permitted|cannot execute[^\n]*|not found)\s*\Z",
    re.I,
)
_LAST_EXCEPTION = re.compile(
    r"\A(?:[a-zA-Z_]\w*\.)*[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Warning)(?::\s|\Z)"
)
_PLEA = re.compile(r"please fix your mistakes|fix the errors and try again|fix the error and try again", re.I)
_WORK_DONE = re.compile(
    r"\b\d+ (?:files?|rows?|records?|items?|lines?|pages?|entries|documents?|tests?|changes?|tables?|messages?|objects?)\b[^\n]{0,20}? (?:written|created|updated|saved|restored|inserted|deleted|copied|moved|imported|exported|passed|processed|sent|changed|removed|added|loaded)"
    r"|^(?:done|ok|success|completed|finished)\W*$|\bsuccessfully\b",
    re.I | re.M,
)
_MAY_FAIL = re.compile(
    r"error|fail|fatal|exception|invalid|denied|not found|unknown|unable|could ?n[o']t|cannot|can't|timed|timeout|exit|returncode|"
    r"cancel|abort|interrupt|reject|missing|forbidden|unauthori|no such|refused|reset|rate limit|too many|quota|oops|wrong|"
    r"panic|traceback|killed|declined|skipped|want to|does not exist|doesn't exist|return code|deadline|too long|unsupported|unrecognized|undefined|unavailable|"
    r"not permitted|not authorized|\u274c|\u2717|\u2718|not available|not a directory|validation|out of memory|fault|http|status",
    re.I,
)

_MODES: tuple[tuple[str, FailureMode, str], ...] = (
    ("text:timeout", FailureMode.TIMEOUT, _TIMEOUT_TEXT.pattern + r"|\b(?:408|504)\b.{0,20}(?:time|gateway)"),
    ("text:tool-gap", FailureMode.TOOL_GAP,
     r"command not found|(?:unknown|no such|invalid|unrecognized|undefined|unavailable|nonexistent) (?:tool|function|command|method|action)\b"
     r"|(?:tool|function|method|action)s? [^\n]{0,60}?(?:not found|does not exist|doesn't exist|is not (?:a valid|available|defined|registered|supported|known)|not (?:available|registered|recognized))"
     r"|no tool (?:named|called|with)|not (?:yet )?implemented|unsupported (?:tool|operation|action|command)|is not recognized as|: not found\s*$|not a valid tool"),
    ("text:network", FailureMode.NETWORK,
     r"connection (?:was )?(?:refused|reset|aborted|error|failed|closed|lost)|ECONN\w+|ENOTFOUND|EAI_AGAIN|getaddrinfo|could not resolve|name or service not known|temporary failure in name"
     r"|network (?:is )?(?:unreachable|error)|no route to host|\bssl\b.{0,40}(?:error|fail)|certificate verify|socket hang up|fetch failed|failed to (?:connect|fetch|establish)|couldn't connect|unable to connect"
     r"|rate.?limit|too many requests|\b429\b|\b50[023]\b.{0,30}(?:server|gateway|unavail)|bad gateway|service unavailable|server disconnected|proxy error|remote end hung up|dns"),
    ("text:perm", FailureMode.PERM,
     r"permission(?:s)? (?:was )?denied|access (?:is |was )?denied|operation not permitted|\bEACCES\b|\bEPERM\b|unauthori[sz]ed|not authori[sz]ed|forbidden|\b401\b|\b403\b"
     r"|authenticat(?:ion|e) (?:failed|required|error)|(?:invalid|incorrect|expired|missing|bad|wrong) (?:api[ _-]?key|token|credentials?|password)|read-?only file ?system"
     r"|not (?:allowed|permitted)|(?:requires?|needs?|without|requested) (?:an? )?(?:approval|permissions?)|insufficient (?:permissions?|privileges|scope)|blocked by|haven't granted|must be (?:root|admin)|policy|outside (?:of )?(?:the )?(?:allowed|workspace|working|sandbox|project)|privilege"),
    ("text:conflict", FailureMode.CONFLICT,
     r"already (?:exists?|been|in use|taken|running|active|cancell?ed|booked|registered|processed|closed|open|merged)|\bEEXIST\b|\b409\b|conflict|(?:is|was|are) locked|could not (?:get|acquire) lock|modified since|has been (?:modified|unexpectedly)|has not been read|read it first"
     r"|stale|duplicate|version mismatch|out of date|non-pending|not pending|cannot be (?:cancell?ed|modified|changed|returned|exchanged|deleted)|in progress|uncommitted|would be overwritten|address already in use|non-fast-forward|deadlock|not enough|insufficient (?:funds|balance|stock|seats)|no (?:longer|more) available|not available|precondition|is a directory|not a directory|not empty"),
    ("text:syntax", FailureMode.SYNTAX,
     r"syntax ?error|indentationerror|taberror|invalid syntax|(?:json|yaml|xml|toml)?decodeerror|parse error|parsing (?:error|failed)|(?:failed|unable|could not|cannot) to? ?parse|unexpected (?:token|end of|eof|character|indent|identifier)|unterminated|unmatched|unbalanced|malformed (?!json arg)|not valid json(?! schema)|invalid json(?! arg)|expecting (?:value|property|',')|unclosed|introduced new syntax"),
    ("text:args", FailureMode.ARGS,
     r"validation ?errors?|validationerror|(?:invalid|bad|illegal|wrong|malformed|unexpected|unrecognized|unknown|missing|extra|conflicting|unsupported)(?: \w+){0,3} (?:arguments?|parameters?|params?|options?|flags?|input|value|field|keyword|property|type|format|json arg\w*)"
     r"|(?:arguments?|parameters?|field|property|value|option)\b[^\n]{0,60}?(?:is |are |was )?(?:required|missing|invalid|not allowed|must|expected|undefined)|missing \d+ required|required (?:positional )?(?:argument|parameter|property|field)|field required|is (?:a )?required|takes \d+ positional"
     r"|inputvalidation|typeerror|valueerror|bad request|\b400\b|\b422\b|unprocessable|must (?:be|have|contain|not|specify|provide)|should be (?:an? )?\w+|expected (?:an? |type )?\w+|out of range|exceeds?|too (?:long|large|short|many|few|big)|does(?: not|n't) (?:match|add up)|do not match|not (?:an? )?(?:valid|integer|number|string)|invalid|usage:|did not match schema|no changes|identical|multiple (?:matches|occurrences)|found \d+ matches|not unique|please fix your mistakes|please provide"),
    ("text:notfound", FailureMode.NOTFOUND,
     r"not found|no such|does(?: not|n't) exist|do not exist|\bENOENT\b|\b404\b|\b410\b|could(?: not|n't) (?:be )?(?:find|found|locate)|can(?:not|'t) find|unable to (?:find|locate)|no (?:match(?:es|ing)?|results?|records?|rows?|module named|entry|file)\b|keyerror|modulenotfound|filenotfound|unknown (?:user|id|order|file|key|host|column|table|name)|undefined (?:name|variable)|is not defined|nonexistent|no longer exists|did not appear|not in (?:the )?(?:list|file|index|database)|cannot access"),
)  # fmt: skip
_NOT_FOUND_FIRST = re.compile(
    r"not found|no such (?:file|directory|key|user|table|column)|does(?: not|n't) exist|\b404\b|ENOENT", re.I
)
_ENVELOPE = re.compile(
    r"success|error|ok\"|status|failed|isError|exit_?code|returncode|return_code|exception", re.I
)
_PAYLOAD_KEYS = (
    "data",
    "result",
    "results",
    "output",
    "items",
    "rows",
    "content",
    "value",
    "records",
    "response",
    "stdout",
)
_HTTP_MODES = {
    400: FailureMode.ARGS, 401: FailureMode.PERM, 403: FailureMode.PERM, 404: FailureMode.NOTFOUND, 405: FailureMode.TOOL_GAP,
    408: FailureMode.TIMEOUT, 409: FailureMode.CONFLICT, 410: FailureMode.NOTFOUND, 412: FailureMode.CONFLICT, 413: FailureMode.ARGS,
    422: FailureMode.ARGS, 423: FailureMode.CONFLICT, 429: FailureMode.NETWORK, 500: FailureMode.RUNTIME, 501: FailureMode.TOOL_GAP,
    502: FailureMode.NETWORK, 503: FailureMode.NETWORK, 504: FailureMode.TIMEOUT,
}  # fmt: skip
_HTTP_CODE = re.compile(
    r"(?:http(?:/[\d.]+)?|status(?: ?code)?|code|error|response)\W{0,4}(?:code\W{0,3})?([45]\d\d)\b|\b([45]\d\d) (?:client|server) error|\A\W{0,3}([45]\d\d)\b",
    re.I,
)
_EXIT_MODES = {124: FailureMode.TIMEOUT, 126: FailureMode.PERM, 127: FailureMode.TOOL_GAP}

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
    Rule("text-shell", "outcome", "the text ends with a shell's complaint: command not found, No such file or directory"),
    Rule("text-traceback", "outcome", "the text ends with a Python traceback's last line"),
    Rule("text-plea", "outcome", "the text asks the model to fix its call"),
    Rule("result", "outcome", "a result came and nothing says that it failed"),
    Rule("no-result", "outcome", "no result was seen: unknown, neither success nor failure"),
    *(Rule(f"mode:{name}", "mode", f"the error text reads like {mode.value}", mode.value, re.compile(pattern, re.I | re.M)) for name, mode, pattern in _MODES),
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
        if (
            type(result) is str
            and not _MAY_FAIL.search(
                result if len(result) <= 1000 else f"{result[:_HEAD]}\n{result[-_TAIL:]}"
            )
            and not (result[:1] == "{" and _ENVELOPE.search(result))
        ):
            return _RESULT
    text = _text_of(result)
    told = _text_of(error) if error not in (None, "", False, {}, []) else ""
    if is_error and "flag" not in off:
        return _failed(told or text, "flag", tool, typed_error, exit_code, off)
    word = str(status).strip().lower().replace(" ", "_") if status is not None and "status" not in off else ""
    if word in _TIMEOUT_WORDS:
        return Verdict(TIMEOUT, FailureMode.TIMEOUT.value, _cut(told or text) or f"status {status}", "status")
    if word in _CANCELLED_WORDS:
        return Verdict(CANCELLED, None, _cut(told or text) or f"status {status}", "status")
    if word in _FAILED_WORDS:
        return _failed(told or text, "status", tool, typed_error, exit_code, off)
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
    if word in _GOOD_WORDS:
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


_RESULT = Verdict(SUCCESS, None, None, "result")
_NO_RESULT = Verdict(UNKNOWN, None, None, "no-result")


def _failed(
    text: str, rule: str, tool: str, typed: str | None, exit_code: int | None, off: frozenset[str]
) -> Verdict:
    """A call that failed for certain: was it stopped, did time run out, or which mode."""
    head = text[:_HEAD]
    if "text-cancelled" not in off and (exit_code == 130 or _CANCELLED_TEXT.search(head)):
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
    if exit_code in _EXIT_MODES and "mode:exit" not in off:
        return _EXIT_MODES[exit_code].value
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
        code = _HTTP_CODE.search(window)
        if code:
            http = _HTTP_MODES.get(int(code.group(1) or code.group(2) or code.group(3)))
            if http:
                return http.value
    first_line = window.lstrip().partition("\n")[0]
    for part in (first_line, window) if first_line != window else (window,):
        for rule in _MODE_RULES:
            if rule.name not in off and rule.pattern and rule.pattern.search(part):
                if rule.mode == FailureMode.ARGS and _NOT_FOUND_FIRST.search(part):
                    return FailureMode.NOTFOUND.value
                return rule.mode or FailureMode.RUNTIME.value
    return FailureMode.RUNTIME.value


def _typed_mode(name: str) -> FailureMode | None:
    key = re.sub(r"[^a-z]", "", name.rpartition(".")[2].lower())
    found = _TYPED_MODES.get(key)
    if found:
        return found
    for ending in ("error", "exception", "failure", "err"):
        if key.endswith(ending) and key[: -len(ending)] in _TYPED_MODES:
            return _TYPED_MODES[key[: -len(ending)]]
    return None


_EXCEPTION = re.compile(
    r"(?:^|\n|: |\")\s*((?:[a-zA-Z_]\w*\.)*[A-Z][A-Za-z]{2,60}(?:Error|Exception|NotFound|Denied|Expired))\b\s*[:(]"
)


def _exception_name(text: str) -> tuple[str, bool] | None:
    """The last exception named in a text and whether it stands in a traceback."""
    found = _EXCEPTION.findall(text)
    return (found[-1], "Traceback (most recent call last)" in text) if found else None


def _exit_marker(text: str) -> int | None:
    """The exit code that a text's first or last lines name."""
    for part in (text[:200], text[-300:]) if len(text) > 500 else (text,):
        if "exit" in part or "return" in part or "code" in part or "Exit" in part or "status" in part:
            found = list(_EXIT_MARKER.finditer(part))
            if found:
                return int(next(group for group in found[-1].groups() if group is not None))
    return None


def _envelope(result: Any, tool: str) -> Verdict | None:
    """What a result says of itself: a failing verdict (rule `envelope`), a good one, or nothing."""
    if isinstance(result, str):
        text = result.strip()
        if text[:1] != "{" or text[-1:] != "}" or len(text) > 1_000_000 or not _ENVELOPE.search(text):
            return None
        try:
            result = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
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
        if word in _TIMEOUT_WORDS:
            return Verdict(TIMEOUT, "timeout", message, "envelope")
        if word in ("error", "failed", "failure", "fail", "errored", "exception", "unsuccessful") and (
            message or len(inner) <= 4
        ):
            return Verdict(FAILURE, _type_in(inner), message or word, "envelope")
        good = good or (word in ("success", "ok", "succeeded") and error in (None, "", False, 0, [], {}))
    elif isinstance(word, int) and not isinstance(word, bool) and 400 <= word < 600 and message:
        return Verdict(FAILURE, _type_in(inner), f"{word} {message}", "envelope")
    if good:
        return Verdict(SUCCESS, None, None, "result")
    if error not in (None, "", False, 0, [], {}) and (
        "error" in inner or "errors" in inner or "error_message" in inner or "exception" in inner
    ):
        if any(inner.get(key) not in (None, "", [], {}, False) for key in _PAYLOAD_KEYS):
            return Verdict(SUCCESS, None, None, "result")
        if _quotes(tool) and len(inner) > 3:
            return None
        return Verdict(FAILURE, _type_in(inner), message, "envelope")
    return Verdict(SUCCESS, None, None, "result") if "error" in inner or "errors" in inner else None


def _type_in(envelope: Mapping[str, Any]) -> str | None:
    error = envelope.get("error")
    for holder in (error, envelope):
        if isinstance(holder, Mapping):
            for key in ("type", "code", "error_type", "errorType", "name", "error_code"):
                value = holder.get(key)
                if isinstance(value, str) and _typed_mode(value):
                    return value
    return None


def _by_text(text: str, tool: str, off: frozenset[str]) -> Verdict | None:
    """Only the text is left: a short text that reads as an error is one, a text that quotes errors is not."""
    head = text[:_HEAD]
    quoting = _quotes(tool)
    lines = head.strip().count("\n") + 1
    if quoting and (lines > 4 or len(text) > _HEAD):
        return None
    if "text-cancelled" not in off and len(text) < 1200:
        stopped = _CANCELLED_TEXT.search(head)
        if stopped and head[: stopped.start()].count("\n") <= 1:
            return Verdict(CANCELLED, None, _cut(text), "text-cancelled")
    if _ERROR_HEAD.match(head) and not (
        lines > 1 and _WORK_DONE.search(text[: 4 * _HEAD].partition("\n")[2])
    ):
        verdict = _failed(text, "text-error", tool, None, None, off)
        rule = "text-timeout" if verdict.outcome is TIMEOUT else "text-error"
        if rule not in off:
            return verdict._replace(rule=rule)
        return None
    if quoting:
        return None
    tail = text[-_TAIL:].rstrip()
    if "text-shell" not in off and len(text) < 2000 and _SHELL_ERROR.search(tail):
        return _failed(text, "text-shell", tool, None, None, off)
    if "text-traceback" not in off and "Traceback (most recent call last)" in text:
        last = tail.rpartition("\n")[2].strip()
        if _LAST_EXCEPTION.match(last):
            return _failed(text, "text-traceback", tool, None, None, off)
    if "text-plea" not in off and len(text) < 4000 and _PLEA.search(tail):
        return _failed(text, "text-plea", tool, None, None, off)
    return None


@lru_cache(maxsize=4096)
def _quotes(tool: str) -> bool:
    """Does the tool show text of others?"""
    return any(part.lower() in _QUOTING_WORDS for part in _NAME_PARTS.findall(tool))


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
