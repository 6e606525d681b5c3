"""Words and patterns by which a failure is known: status words, exception names, sentences of tools, HTTP and exit codes.

Read by `failures`, which says in which order they count. Sources: the error texts of the harnesses, frameworks and tools whose
transcripts sitoolkit reads, and the exception names of Python, Node and the common API clients.
"""

from __future__ import annotations

import re

from sitoolkit.records import FailureMode

__all__ = [
    "CANCELLED_SIGNS",
    "CANCELLED_TEXT",
    "CANCELLED_WORDS",
    "ERROR_HEAD",
    "ERROR_KEYS",
    "EXIT_MARKER",
    "EXIT_MODES",
    "EXIT_SIGNS",
    "FAILED_WORDS",
    "GOOD_WORDS",
    "HTTP_CODE",
    "HTTP_MODES",
    "LAST_EXCEPTION",
    "MODES",
    "NAME_PARTS",
    "NOT_FOUND_FIRST",
    "PAYLOAD_KEYS",
    "PLEA",
    "PROGRAM_MODES",
    "PROGRAM_TEXT",
    "PROGRAM_TOOLS",
    "QUOTING_WORDS",
    "SHELL_ERROR",
    "SHELL_SIGNS",
    "SHORT_COMPLAINT",
    "STATUS_KEYS",
    "STATUS_TYPES",
    "TESTS_FAILED",
    "TIMEOUT_TEXT",
    "TIMEOUT_WORDS",
    "TYPED",
    "TYPED_MODES",
    "WORK_DONE",
]

# ---------------------------------------------------------------- words

FAILED_WORDS = frozenset({
    "error", "failed", "failure", "fail", "errored", "exception", "crashed", "rejected", "denied", "invalid", "status_code_error",
    "incomplete", "fatal", "not_ok", "unsuccessful", "err", "ko", "aborted_with_error", "output-error", "tool_error", "2",
    "agenterror",
})  # fmt: skip
STATUS_TYPES = {
    "denied": "permission", "forbidden": "permission", "unauthorized": "permission", "permission_denied": "permission",
    "not_found": "notfound", "notfound": "notfound", "invalid": "validation", "invalid_argument": "validation",
    "conflict": "conflict", "already_exists": "conflict", "unavailable": "unavailable", "unimplemented": "unimplemented",
}  # fmt: skip
TIMEOUT_WORDS = frozenset({"timeout", "timed_out", "timedout", "deadline_exceeded", "time_out"})
CANCELLED_WORDS = frozenset({
    "cancelled", "canceled", "aborted", "interrupted", "killed", "skipped", "declined", "user_rejected", "rejected_by_user",
    "user_cancelled", "denied_by_user", "output-denied",
})  # fmt: skip
GOOD_WORDS = frozenset({
    "success", "succeeded", "ok", "completed", "complete", "done", "finished", "passed", "successful", "output-available",
    "finished_successfully", "status_code_ok", "200", "1",
})  # fmt: skip
TYPED = (
    (FailureMode.TIMEOUT, "timeout timeouterror timeoutexpired timeoutexception deadlineexceeded readtimeout connecttimeout timedout timelimit"),
    (FailureMode.PERM, "permission permissionerror permissiondenied permissiondeniederror unauthorized forbidden accessdenied accessdeniedexception authenticationerror authorizationerror approval unauthenticated eacces eperm sandboxdenied policyviolation"),
    (FailureMode.NOTFOUND, "notfound notfounderror filenotfound filenotfounderror keyerror lookuperror indexerror modulenotfounderror doesnotexist enoent nosuchelementexception resourcenotfoundexception nosuchkey importerror"),
    (FailureMode.TOOL_GAP, "notimplementederror notimplemented unknowntool toolnotfound toolnotfounderror unsupported unsupportedoperation unimplemented commandnotfound nosuchtool invalidtool unavailabletool methodnotfound unknowntoolerror ainosuchtoolerror"),
    (FailureMode.SYNTAX, "syntaxerror indentationerror jsondecodeerror parseerror parsererror parsing taberror unicodedecode unicodedecodeerror formaterror"),
    (FailureMode.CONFLICT, "conflict conflicterror fileexistserror alreadyexists alreadyexistserror integrityerror eexist resourceconflict failedprecondition aborted optimisticlockerror isadirectory isadirectoryerror notadirectoryerror"),
    (FailureMode.NETWORK, "connectionerror connectionrefusederror connectionreseterror connectionabortederror connecterror gaierror sslerror networkerror ratelimiterror ratelimit toomanyrequests apiconnectionerror serviceunavailable unavailable proxyerror urlerror brokenpipeerror remotedisconnected"),
    (FailureMode.RUNTIME, "runtimeerror assertionerror zerodivisionerror attributeerror nameerror recursionerror memoryerror oserror ioerror systemerror arithmeticerror overflowerror stopiteration internalservererror internalerror toolexecutionerror referenceerror rangeerror panic calledprocesserror subprocesserror"),
    (FailureMode.ARGS, "validation validationerror valueerror typeerror badrequest badrequesterror invalidargument invalidargumenterror argumenterror invalidparams invalidinput inputvalidationerror missingargument unprocessableentity toolinputerror modelretry tooluseerror tooluse_failed toolusefailed schemaerror invalidrequesterror outofrange limit outputlimit"),
)  # fmt: skip
TYPED_MODES = {word: mode for mode, words in TYPED for word in words.split()}
QUOTING_WORDS = frozenset({
    "read", "cat", "view", "grep", "search", "tail", "head", "log", "logs", "diff", "fetch", "open", "show", "glob", "find",
    "query", "scroll", "browse", "recall", "retrieve",
})  # fmt: skip
NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# ---------------------------------------------------------------- text

CANCELLED_TEXT = re.compile(
    r"doesn't want to (?:proceed|take this action)|\[?request (?:was )?(?:interrupted|aborted|cancell?ed) by (?:the )?user"
    r"|(?:cancell?ed|aborted|interrupted|rejected|declined|skipped|denied|stopped|refused) by (?:the )?user"
    r"|user (?:has )?(?:rejected|declined|cancell?ed|aborted|interrupted|denied|skipped|refused)\b"
    r"|tool use was rejected|(?:operation|command|call|execution|request|task|tool) (?:was |has been )?(?:cancell?ed|aborted|interrupted)\b"
    r"|\bcancellederror\b|^\W{0,3}(?:keyboardinterrupt|cancell?ed|aborted|interrupted)\W{0,3}$",
    re.I | re.M,
)
TIMEOUT_TEXT = re.compile(
    r"\btimed[ -]?out\b|\btime[ -]?out(?:error|expired|exception)?\b(?!\s*[=(]|\s*:\s*\d|s\b)|deadline exceeded|\bETIMEDOUT\b"
    r"|time limit (?:exceeded|reached)|took too long|no (?:new )?output (?:for|after) \d+",
    re.I,
)
# A result that is one short sentence and nothing but a complaint: "service not found", "Request timed out."
SHORT_COMPLAINT = re.compile(
    r"\A\s*(?:[\w./:@'\"`#-]{1,40} ){1,5}(?:was |is |were |does |do |has |already )?"
    r"(?:not found|not exist|timed out|unavailable|not available|already exists|exists already|not permitted|not allowed)[.!]?\s*\Z"
    r"|\A\s*conflict: \S[^\n]{0,160}\Z",
    re.I,
)
EXIT_MARKER = re.compile(
    r"(?:\[?(?:the )?(?:command|process|shell|script|program|task)[^\n\]]{0,60}?(?:failed|exited|completed|finished|terminated|ended|returned)[^\n\]]{0,30}?(?:exit |return |status )?(?:code|status)[: =]{0,3}(?P<a>-?\d{1,5}))"
    r"|(?:^|\n|\(|\[|<|: )\s*(?:error: )?(?:exit|return)[ _-]?(?:code|status)\s*[:=]?\s*(?P<b>-?\d{1,5})\b"
    r"|<(?:returncode|exit_code|exitcode)>\s*(?P<c>-?\d{1,5})"
    r"|returned non-zero exit status (?P<d>-?\d{1,5})"
    r"|(?:^|\n)\[?(?:exited|exit) (?:with )?(?:code |status )?(?P<e>-?\d{1,5})\]?\s*(?:\n|$)"
    r"|\bexited with (?:code|status) (?P<f>-?\d{1,5})\b"
    r"|\[?command failed with exit code (?P<g>-?\d{1,5})",
    re.I,
)
ERROR_HEAD = re.compile(
    r"\A[\s\"'`*#>\[(]{0,8}(?:[\u274c\u2717\u2718\u26d4\U0001f6ab]\s*|<(?:tool_use_error|error|stderr_error)>|"
    r"(?:[a-z0-9_./-]{1,60}: (?:\(\d+\) )?){0,3}?(?:"
    r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w{0,60}(?:Error|Exception|Failure|Interrupt|Denied|NotFound)\b\s*[:(\[]"
    r"|traceback \(most recent call last\)"
    r"|(?:internal |fatal |tool |server |execution |runtime |system |api |http |client |unexpected |unknown |validation |database |query |command |mcp |the following )?(?:error|failure|exception|fatal|panic|err)\b\]?\W{0,3}(?:\([^)\n]{1,60}\)|\[[^\]\n]{1,60}\]|code|no\.?|#)?\s*\d{0,5}\s*(?:[:\u2013]|- )\s*(?!\s*(?:0|none|null|false|no errors?|\"\"|'')\b)\S"
    r"|(?:an? |the )?(?:unexpected |internal |unknown )?(?:error|exception) (?:occurr?ed|executing|calling|invoking|running|while|during|when|reading|writing|parsing|processing|fetching|creating|updating|deleting|in tool|from|opening|accessing|loading|applying|editing|searching|connecting|trying|getting)\b"
    r"|(?:error|fatal|failed|failure|critical|exception)\]\s*[^\s0]|your (?:proposed )?(?:edit|command|code|query|patch|call|request|input)[^\n]{0,60}(?:error|could not|cannot|failed|invalid|not (?:valid|allowed|applied))"
    r"|not (?:yet )?implemented\b|(?:failed|unable) to \w|(?:could not|couldn't|cannot|can't) \w"
    r"|(?:tool|function|command|request|call|execution|operation|action|query|script|edit|patch|build|test|upload|download|deploy(?:ment)?)\b[^\n]{0,80}?(?<!\b0)(?<!\bno)(?<!\bnot) (?:has )?(?:failed|errored|not found|does not exist|doesn't exist|is not (?:available|defined|registered|supported|allowed))\b(?! tests?\b)"
    r"|failed\W{0,2}(?:$|\n|:|- )|failure\W{0,2}(?:$|\n)|error\W{0,2}(?:$|\n)"
    r"|(?:unknown|no such|invalid|unrecognized|unsupported|undefined) (?:tool|function|command|action|method|option|argument|parameter|operation)s?\b"
    r"|(?:invalid|incorrect|expired|wrong|bad|malformed) (?:arguments?|parameters?|input|request|json|syntax|value|format|action|path|date|id|api key|token|credentials?|password|username|url|name|type|response|choice|operation)\b"
    r"|missing (?:required )?(?:arguments?|parameters?|field|property|value)\b"
    r"|ran into (?:an? |the following )?(?:\[errno|errors?\b|exceptions?\b)|invalid [`'\"][\w.]{1,60}[`'\"] (?:parameter|argument|value|input|field)s?\b"
    r"|\d+ validation errors?\b|input validation|permission denied|access (?:is )?denied|operation not permitted|not authorized|unauthorized|forbidden\b"
    r"|(?:http(?:/\d(?:\.\d)?)? ?(?:error |status )?|status(?: code)?:? )?(?:4\d\d|5\d\d)(?: client error| server error|:? (?:bad request|unauthorized|forbidden|not found|conflict|gone|unprocessable|too many|internal|bad gateway|service unavail|gateway time))"
    r"|request failed with status(?: code)? [45]\d\d|connection (?:refused|reset|error|failed)|network (?:error|is unreachable)"
    r"|no such file or directory|file not found|file does not exist|not found\W{0,2}(?:$|\n)|something went wrong|oops\b"
    r"|rate limit|too many requests|quota exceeded|syntax error|segmentation fault|killed\W{0,2}$|out of memory|command timed out|timed out\b|timeout(?:\s*[:!] *(?![\d ])|\W{0,2}$| (?:waiting|after|while|exceeded|reached|error|expired|occurred)\b)|e?timedout\b|e(?:conn\w+|noent|acces|perm|exist|notfound)\b|operation timed out"
    r"))",
    re.I,
)
SHELL_ERROR = re.compile(
    r"(?:^|\n)(?:[\w./~+-]{1,80}: ){1,4}(?:line \d+: )?[^\n:]{0,120}?:? ?(?:command not found|no such file or directory|permission denied|not a directory|is a directory|operation not permitted|cannot execute[^\n]*|not found)\s*\Z",
    re.I,
)
LAST_EXCEPTION = re.compile(
    r"\A(?:[a-zA-Z_]\w*\.)*[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Warning)(?::\s|\Z)"
)
TESTS_FAILED = re.compile(
    r"(?:^|\n)=* ?(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)(?:, \d+ \w+)*,? in \d[\d.]*s\b[^\n]{0,30}\Z|\AE {3,7}[\w.]+(?:Error|Exception): ",
)
PLEA = re.compile(r"please fix your mistakes|fix the errors and try again|fix the error and try again", re.I)
WORK_DONE = re.compile(
    r"\b\d+ (?:files?|rows?|records?|items?|lines?|pages?|entries|documents?|tests?|changes?|tables?|messages?|objects?)\b[^\n]{0,20}? (?:written|created|updated|saved|restored|inserted|deleted|copied|moved|imported|exported|passed|processed|sent|changed|removed|added|loaded)"
    r"|^(?:done|ok|success|completed|finished)\W*$|\bsuccessfully\b",
    re.I | re.M,
)
# Words without which a pattern above cannot match; looked for first, since a pattern costs a hundred times more.
CANCELLED_SIGNS = (
    "cancel",
    "abort",
    "interrupt",
    "reject",
    "declin",
    "skip",
    "want to",
    "denied",
    "refus",
    "stopped",
)
EXIT_SIGNS = (
    "exit",
    "returncode",
    "return code",
    "return_code",
    "non-zero",
    "with code",
    "with status",
    "returned",
)
SHELL_SIGNS = ("not found", "no such file", "denied", "directory", "permitted", "cannot execute")

MODES: tuple[tuple[str, FailureMode, str], ...] = (
    ("text:timeout", FailureMode.TIMEOUT, TIMEOUT_TEXT.pattern + r"|\b(?:408|504)\b.{0,20}(?:time|gateway)"),
    ("text:tool-gap", FailureMode.TOOL_GAP,
     r"command not found|(?:unknown|no such|invalid|unrecognized|undefined|unavailable|nonexistent) (?:tool|function|command|method|action)\b"
     r"|(?:tool|function|method not|action)s? (?:named |called )?[\"'`]?[\w.:-]{0,60}[\"'`]? ?(?:not found|found$|was not found|does not exist|doesn't exist|is not (?:a valid|available|defined|registered|supported|known)|not (?:available|registered|recognized))|is not a (?:valid|known|registered) (?:tool|function|command)"
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
     r"|inputvalidation|typeerror|valueerror|bad request|\b400\b|\b422\b|unprocessable|must (?:be|have|contain|not|specify|provide)|should be (?:an? )?\w+|expected (?:an? |type )?\w+|out of range|exceeds?|too (?:long|large|short|many|few|big)|does(?: not|n't) (?:match|add up)|do not match|not (?:an? )?(?:valid|integer|number|string)|invalid|usage:|did not match schema|no changes|identical|cannot be (?:used|applied|combined|empty|blank|null|none|negative)|not supported\. use|\binstead\b|multiple (?:matches|occurrences)|found \d+ matches|not unique|please fix your mistakes|please provide"),
    ("text:notfound", FailureMode.NOTFOUND,
     r"not found|no such|does(?: not|n't) exist|do not exist|\bENOENT\b|\b404\b|\b410\b|could(?: not|n't) (?:be )?(?:find|found|locate)|can(?:not|'t) find|(?:unable|failed) to (?:find|locate)|no (?:match(?:es|ing)?|results?|records?|rows?|module named|entry|file)\b|keyerror|modulenotfound|filenotfound|unknown (?:user|id|order|file|key|host|column|table|name)|undefined (?:name|variable)|is not defined|nonexistent|no longer exists|did not appear|not in (?:the )?(?:list|file|index|database)|cannot access"),
)  # fmt: skip
NOT_FOUND_FIRST = re.compile(
    r"not found|no such (?:file|directory|key|user|table|column)|does(?: not|n't) exist|\b404\b|ENOENT", re.I
)
PAYLOAD_KEYS = (
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
ERROR_KEYS = frozenset(
    {"error", "errors", "error_message", "errorMessage", "exception", "traceback", "error_code", "error_type"}
)
STATUS_KEYS = ERROR_KEYS | {
    "status", "message", "code", "detail", "details", "reason", "type", "timestamp", "request_id", "tool", "tool_name", "hint",
    "suggestion", "output", "stderr", "stdout", "result", "data", "status_code", "msg", "description", "duration_ms", "retryable",
}  # fmt: skip  # a status beside nothing but these is the call's own, not that of what was asked for
HTTP_MODES = {
    400: FailureMode.ARGS, 401: FailureMode.PERM, 403: FailureMode.PERM, 404: FailureMode.NOTFOUND, 405: FailureMode.TOOL_GAP,
    408: FailureMode.TIMEOUT, 409: FailureMode.CONFLICT, 410: FailureMode.NOTFOUND, 412: FailureMode.CONFLICT, 413: FailureMode.ARGS,
    422: FailureMode.ARGS, 423: FailureMode.CONFLICT, 429: FailureMode.NETWORK, 500: FailureMode.RUNTIME, 501: FailureMode.TOOL_GAP,
    502: FailureMode.NETWORK, 503: FailureMode.NETWORK, 504: FailureMode.TIMEOUT,
}  # fmt: skip
HTTP_CODE = re.compile(
    r"(?:http(?:/[\d.]+)?|status(?: ?code)?|code|error|response)\W{0,4}(?:code\W{0,3})?([45]\d\d)\b|\b([45]\d\d) (?:client|server) error|\A\W{0,3}([45]\d\d)\b",
    re.I,
)
EXIT_MODES = {124: FailureMode.TIMEOUT, 126: FailureMode.PERM, 127: FailureMode.TOOL_GAP}
PROGRAM_TOOLS = frozenset({"bash", "shell", "terminal", "powershell", "sh", "zsh", "console", "cmd"})
PROGRAM_MODES = frozenset(
    {"text:timeout", "text:tool-gap", "text:network", "text:syntax"}
)  # sure whatever else the output says
PROGRAM_TEXT = (
    ("mode:text:perm", FailureMode.PERM, re.compile(r"permission denied|operation not permitted|access (?:is )?denied|\bEACCES\b|authentication failed|unauthori[sz]ed|read-only file", re.I)),
    ("mode:text:notfound", FailureMode.NOTFOUND, re.compile(r"no such file|cannot access|not found|does not exist|cannot find|no module named|(?:could not|failed to|unable to) (?:find|locate)|ENOENT|unknown revision|pathspec", re.I)),
    ("mode:text:conflict", FailureMode.CONFLICT, re.compile(r"merge conflict|already exists|non-fast-forward|is locked|would be overwritten|address already in use|conflict", re.I)),
    ("mode:text:args", FailureMode.ARGS, re.compile(r"^usage:|unrecogni[sz]ed (?:option|argument)|(?:invalid|unknown|illegal) (?:option|argument|flag)|missing (?:operand|argument|required)|the following arguments are required", re.I | re.M)),
)  # fmt: skip
