"""What passes between all parts: typed records, ids, UTC time and scopes.

Comes in: nothing of sitoolkit but `errors`. Goes out: pydantic models that dump to JSON and load from it unchanged.
Time is timezone-aware UTC everywhere; a time that cannot be read is an error or `None`, never "now".
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema, core_schema

from sitoolkit.errors import ScopeError, TimeError

__all__ = [
    "GLOBAL",
    "BINEvent",
    "Category",
    "Check",
    "Claim",
    "Clock",
    "CorrectionSignal",
    "Decision",
    "ErrorSignature",
    "FailureMode",
    "Item",
    "Memory",
    "Origin",
    "Outcome",
    "Proposal",
    "ProposalState",
    "Reader",
    "Recall",
    "RecallItem",
    "Record",
    "RunManifest",
    "Scope",
    "Session",
    "SessionReflection",
    "Source",
    "Status",
    "ToolInvocation",
    "Turn",
    "Usage",
    "UtcTime",
    "WriteReport",
    "canonical_json",
    "digest",
    "iso",
    "parse_time",
    "unique",
    "utc_now",
]

# ---------------------------------------------------------------- time

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present, aware and in UTC. Parts that need it take a `Clock`, so that tests can fix it."""
    return datetime.now(UTC)


_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))  # ns, us, ms, s by magnitude


def parse_time(value: object, *, naive_is_utc: bool = False) -> datetime | None:
    """Read a time as it occurs in transcripts; `None` for an absent value.

    >>> parse_time("2026-01-02T03:04:05+01:00").isoformat()
    '2026-01-02T02:04:05+00:00'

    Args:
        value: ISO 8601 text, an epoch number (s, ms, us or ns, told by magnitude), a `datetime`, or `None`/`""`.
        naive_is_utc: read a time without a zone as UTC instead of refusing it.

    Raises:
        TimeError: the value is not a time, or has no zone and `naive_is_utc` is false.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        raise TimeError(f"not a time: {value!r}")
    if isinstance(value, int | float):
        number = float(value)
        if number != number or abs(number) >= 1e20:
            raise TimeError(f"not a time: {value!r}")
        for floor, unit in _EPOCH_UNITS:
            if abs(number) >= floor:
                try:
                    return datetime.fromtimestamp(number / unit, UTC)
                except (OverflowError, OSError, ValueError) as fault:
                    raise TimeError(f"not a time: {value!r}") from fault
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d{9,20}(\.\d+)?", text):
            return parse_time(float(text))
        try:
            value = datetime.fromisoformat(text)
        except ValueError as fault:
            raise TimeError(f"not an ISO 8601 time: {text[:80]!r}") from fault
    if not isinstance(value, datetime):
        raise TimeError(f"not a time: {value!r:.80}")
    if value.tzinfo is None:
        if not naive_is_utc:
            raise TimeError(f"time without a zone: {value.isoformat()}; add Z or an offset")
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError) as fault:
        raise TimeError(f"time out of range: {value!r}") from fault


def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC with `Z`; `None` stays `None`."""
    if value is None:
        return None
    text = value.astimezone(UTC).isoformat(timespec="microseconds" if value.microsecond else "seconds")
    return text.replace("+00:00", "Z")


UtcTime = Annotated[
    datetime,
    BeforeValidator(parse_time),
    PlainSerializer(iso, return_type=str, when_used="json"),
]

# ---------------------------------------------------------------- ids


def canonical_json(value: object) -> str:
    """One text for equal values: sorted keys, no spaces, 1 and 1.0 alike, NFC text, unknown types by `str`."""
    # Every id is made from this text: plain ASCII values take a fast way that gives the same bytes.
    try:
        fast = orjson.dumps(value, option=_AS_JSON)
    except TypeError:
        fast = b""
    bare = fast[:1] in _NUMBER_STARTS  # a number that stands alone, or nothing
    if not bare and fast.isascii() and b"null" not in fast and not _NUMBER_TO_SETTLE.search(fast):
        return fast.decode("ascii")
    return json.dumps(
        _canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )


_AS_JSON = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_NUMBER_STARTS = (b"", *(b"%c" % code for code in b"-0123456789"))
_NUMBER_TO_SETTLE = re.compile(rb"[:,\[]-?\d+[.eE]")  # a float, or text that looks like one


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", str(key)): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    return value


def digest(*parts: object) -> str:
    """SHA-256 (64 hex digits) over the canonical JSON of the parts; lone surrogates are kept apart, not lost."""
    return hashlib.sha256(canonical_json(list(parts)).encode("utf-8", "surrogatepass")).hexdigest()


# ---------------------------------------------------------------- vocabulary


class Outcome(StrEnum):
    """How a tool call ended. `unknown`: no result was seen; never counted as a success or a failure."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class FailureMode(StrEnum):
    """Level 1 of the failure taxonomy; plugins add deeper ones as `MODE.DETAIL` text."""

    PERM = "PERM"
    NOTFOUND = "NOTFOUND"
    TIMEOUT = "TIMEOUT"
    SYNTAX = "SYNTAX"
    RUNTIME = "RUNTIME"
    TOOL_GAP = "TOOL_GAP"
    ARGS = "ARGS"
    CONFLICT = "CONFLICT"
    NETWORK = "NETWORK"


class Category(StrEnum):
    """What a memory is; each has one kind of writer and one slot in the prompt."""

    OPERATIONAL_EVENT = "operational_event"
    EXPERT_KNOWLEDGE = "expert_knowledge"
    USAGE_GUIDE = "usage_guide"
    REFLECTION = "reflection"
    LEARNED_FACT = "learned_fact"

    @property
    def slot_name(self) -> str:
        """What the memory is called in a prompt: directive, lesson, fact, pattern or precedent."""
        return _SLOT_NAMES[self]


_SLOT_NAMES = {
    Category.USAGE_GUIDE: "directive",
    Category.REFLECTION: "lesson",
    Category.LEARNED_FACT: "fact",
    Category.EXPERT_KNOWLEDGE: "pattern",
    Category.OPERATIONAL_EVENT: "precedent",
}


class Origin(StrEnum):
    """Where a memory's content comes from."""

    OBSERVED = "observed"
    DISTILLED = "distilled"
    DIRECTIVE = "directive"
    REFLECTED = "reflected"
    USER_STATED = "user-stated"
    INFERRED = "inferred"
    CORRECTED = "corrected"


class Status(StrEnum):
    """Life of a memory. Recall serves `active` rows that are not expired, and nothing else."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    RETIRED = "retired"
    QUARANTINED = "quarantined"


class ProposalState(StrEnum):
    """Life of a proposal."""

    PENDING = "pending"
    DEFERRED = "deferred"
    APPROVED = "approved"
    MODIFIED = "modified"
    REJECTED = "rejected"
    IMPLEMENTED = "implemented"
    FAILED = "failed"
    UNDONE = "undone"
    STALE = "stale"


# ---------------------------------------------------------------- scopes

_SCOPE = re.compile(
    r"global|(?:org|team|project|agent|session):[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]{0,198}[^\x00-\x20\x7f])?"
)


class Scope(str):
    """Who may see a memory: `global`, `org:x`, `team:x`, `project:x`, `agent:x` or `session:x`.

    One type for writers and readers. Text is NFC-normalised; case counts; there is no empty scope.

    >>> Scope("agent:ops").kind
    'agent'

    Raises:
        ScopeError: the text is outside the grammar.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Scope:
        if isinstance(text, Scope):
            return text
        if not isinstance(text, str):
            raise ScopeError(f"a scope is text, not {type(text).__name__}")
        text = unicodedata.normalize("NFC", text)
        if not _SCOPE.fullmatch(text):
            raise ScopeError(
                f"not a scope: {text[:80]!r}; use global, org:NAME, team:NAME, project:NAME, agent:NAME or session:NAME"
            )
        return super().__new__(cls, text)

    @property
    def kind(self) -> str:
        """`global`, `org`, `team`, `project`, `agent` or `session`."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The part after the colon; empty for `global`."""
        return self.partition(":")[2]

    @classmethod
    def of(cls, kind: str, name: str) -> Scope:
        """Build a scope from its two parts."""
        return cls(f"{kind}:{name}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.plain_serializer_function_ser_schema(str)
        )


GLOBAL = Scope("global")


class Record(BaseModel):
    """Base of all records: immutable, JSON in and out, unknown keys ignored so that newer files still load."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", ser_json_inf_nan="strings", protected_namespaces=()
    )

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values; times are ISO 8601 UTC with `Z`."""
        return self.model_dump(mode="json")

    def __str__(self) -> str:
        """The record for a terminal: a line a field that has a value, long ones cut, lists by their length."""
        lines = [type(self).__name__]
        for name, value in self.to_json().items():
            if value in (None, "", [], {}) or name == "vector":
                continue
            if isinstance(value, list):
                short = all(isinstance(item, str | int) for item in value) and len(value) <= 3
                text = ", ".join(map(str, value)) if short else f"{len(value)} items"
            else:
                text = value if isinstance(value, str) else canonical_json(value)
            flat = " ".join(text.split())
            lines.append(f"  {name.replace('_', ' ')}: {flat if len(flat) <= 160 else flat[:159] + '…'}")
        return "\n".join(lines)


class Reader(Record):
    """Who asks: the set of scopes that a recall may search. An unset reader sees `global` alone.

    >>> sorted(Reader(agent="ops").scopes)
    ['agent:ops', 'global']
    """

    agent: str | None = None
    project: str | None = None
    team: str | None = None
    org: str | None = None
    session: str | None = None

    @property
    def scopes(self) -> frozenset[Scope]:
        """`global` and one scope for each part that is set; what is not in the set is not seen."""
        parts = (
            ("agent", self.agent),
            ("project", self.project),
            ("team", self.team),
            ("org", self.org),
            ("session", self.session),
        )
        return frozenset([GLOBAL, *(Scope.of(kind, name) for kind, name in parts if name)])


# ---------------------------------------------------------------- in: sessions


class Source(Record):
    """Where a record was read: file, 1-based line (as `wc -l` counts), format."""

    file: str
    line: int | None = None
    format: str = ""


class Usage(Record):
    """Tokens and cost as the transcript records them; `None` where it says nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cost_usd: float | None = None


class ToolInvocation(Record):
    """One tool call and what came of it.

    `id` names the occurrence: SHA-256 over session, position, tool and canonical redacted arguments. `content_hash` names
    the content: tool, canonical redacted arguments, result without its volatile parts. Two identical calls are two
    occurrences of one content. Both are empty until `redaction.seal` has removed secrets and computed them.
    """

    id: str = ""
    content_hash: str = ""
    session_id: str
    seq: int  # 0-based position among the session's calls
    tool: str
    args: Any = Field(
        default_factory=dict
    )  # a JSON object nearly always; raw text where it could not be parsed
    args_error: str | None = None  # why `args` is raw text
    result: Any = None  # bounded JSON value or text
    outcome: Outcome = Outcome.UNKNOWN
    failure_mode: str | None = None
    rule: str | None = None  # which rule of failures.py decided the outcome
    error: str | None = None
    started_at: UtcTime | None = None
    duration_ms: float | None = None
    is_write: bool | None = None  # the tool's own side-effect annotation; None: not said
    agent: str = ""
    project: str | None = None
    team: str | None = None
    org: str | None = None
    call_id: str | None = None  # the id that the harness gave
    paired: bool = False  # a result was found
    paired_by: Literal["id", "position", "inline"] | None = None
    guessed: bool = False  # the pairing is a guess
    ran: bool = True  # false: the assistant message ended in an error before the call was made
    abandoned: bool = False  # stands on a branch that was given up
    turn: int | None = None  # index of the turn that made the call
    source: Source
    result_source: Source | None = None

    @property
    def failed(self) -> bool:
        """Failure or timeout; a cancelled or unknown call has not failed."""
        return self.outcome in (Outcome.FAILURE, Outcome.TIMEOUT)

    @property
    def scope(self) -> Scope:
        """The session's agent if it has one, else its project, else global."""
        return (
            Scope.of("agent", self.agent)
            if self.agent
            else Scope.of("project", self.project)
            if self.project
            else GLOBAL
        )


class Turn(Record):
    """One message of a session; `calls` are those that this turn made."""

    role: Literal["system", "user", "assistant", "tool", "other"]
    text: str = ""
    calls: tuple[ToolInvocation, ...] = ()
    at: UtcTime | None = None
    index: int = 0
    author: str | None = None
    abandoned: bool = False
    source: Source | None = None


class Session(Record):
    """One run of an agent: turns in order, with their calls."""

    id: str
    format: str = ""
    agent: str = ""
    project: str | None = None
    team: str | None = None
    org: str | None = None
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    model: str | None = None
    task: str | None = None
    outcome: str = "unknown"  # success, failure, cancelled, unknown
    reward: float | None = None
    parent_id: str | None = None  # the session that started this one as a sub-agent
    usage: Usage | None = None
    turns: tuple[Turn, ...] = ()
    orphan_results: int = 0  # results without a call
    notes: tuple[str, ...] = ()  # what the reader had to assume
    source: Source

    @property
    def calls(self) -> tuple[ToolInvocation, ...]:
        """All calls in order of `seq`."""
        return tuple(call for turn in self.turns for call in turn.calls)

    def to_openai(self) -> list[dict[str, Any]]:
        """The session as a list of OpenAI chat messages: calls as `tool_calls`, results as `tool` messages."""
        messages: list[dict[str, Any]] = []
        for turn in self.turns:
            if turn.role == "tool" and not turn.text:
                continue
            role = "user" if turn.role == "other" else turn.role
            message: dict[str, Any] = {"role": role, "content": turn.text}
            if role == "tool":  # a result whose call is not known
                message["tool_call_id"] = f"orphan_{turn.index}"
            if turn.calls:
                message["tool_calls"] = [
                    {
                        "id": f"call_{call.seq}",
                        "type": "function",
                        "function": {
                            "name": call.tool,
                            "arguments": call.args
                            if isinstance(call.args, str) and call.args_error
                            else json.dumps(call.args, ensure_ascii=False),
                        },
                    }
                    for call in turn.calls
                ]
            messages.append(message)
            messages.extend(
                {
                    "role": "tool",
                    "tool_call_id": f"call_{call.seq}",
                    "content": call.result
                    if isinstance(call.result, str)
                    else json.dumps(call.result, ensure_ascii=False),
                }
                for call in turn.calls
                if call.paired
            )
        return messages


# ---------------------------------------------------------------- kept: memories


class Claim(Record):
    """A fact computed from a group of calls, with its support and the occurrences it rests on."""

    id: str
    kind: str  # always_given, constant, closed_set, shape, template, range, preceded_by, variance, contrast …
    text: str
    support: int  # in how many it holds
    of: int  # out of how many
    evidence: tuple[str, ...] = ()  # occurrence ids
    data: dict[str, Any] = Field(
        default_factory=dict
    )  # the computed values, for charts, templates and checks


class Memory(Record):
    """One row of the memory table.

    `content_hash` and `slot` are the two identities: a second write of the same (scope, category, content_hash) is a
    repeat; a write of another content to the same (scope, category, slot) supersedes what held the slot.
    """

    id: str = (
        ""  # set by the store: "mem_" and 24 hex digits of the digest of scope, category and content_hash
    )
    category: Category
    scope: Scope
    text: str
    payload: dict[str, Any] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    origin: Origin
    confidence: float = Field(default=0.5, ge=0.0, le=1.0)
    base_weight: float = Field(default=1.0, gt=0.0)  # intrinsic priority; never rewritten by decay
    status: Status = Status.ACTIVE
    content_hash: str = ""  # set by the store from `text` where the writer gives none
    slot: str | None = None
    seen_count: int = 1
    first_seen: UtcTime | None = None
    last_seen: UtcTime | None = None
    created_at: UtcTime | None = None  # when this row was written
    ended_at: UtcTime | None = None  # when it stopped being active
    expires_at: UtcTime | None = None
    evidence: tuple[str, ...] = ()
    supersedes: str | None = None
    superseded_by: str | None = None
    written_by: str = ""  # "template", or the model's name
    run_id: str = ""
    ended_by: str | None = None  # the run that superseded or retired it
    reason: str | None = None  # why the status changed last
    embed_model: str | None = None
    vector: tuple[float, ...] | None = None


class Item(Record):
    """What happened to one item of a write."""

    id: str
    result: Literal["written", "repeated", "superseded", "blocked", "failed", "unchanged"]
    reason: str | None = None


class WriteReport(Record):
    """What happened to every item of a write, in the order given; no caller counts a blocked item as written."""

    items: tuple[Item, ...] = ()
    superseded: tuple[str, ...] = ()  # ids of older memories that this write replaced

    def count(self, result: str) -> int:
        """How many items ended as `result`."""
        return sum(item.result == result for item in self.items)

    @property
    def written(self) -> int:
        return self.count("written")

    @property
    def repeated(self) -> int:
        return self.count("repeated")

    @property
    def blocked(self) -> int:
        return self.count("blocked")

    @property
    def failed(self) -> int:
        return self.count("failed")


class RecallItem(Record):
    """One memory in a recall, with its place, its score and why it came."""

    memory_id: str
    category: Category
    slot: str
    rank: int
    score: float
    parts: dict[str, float] = Field(default_factory=dict)
    scope: Scope
    origin: Origin
    confidence: float
    text: str
    evidence: tuple[str, ...] = ()
    why: str = ""


class Recall(Record):
    """What reaches the prompt for one query of one reader; written to the journal."""

    id: str
    reader: Reader
    query: str
    items: tuple[RecallItem, ...] = ()
    text: str = ""
    tokens: int = 0
    abstained: bool = False
    reason: str | None = None  # why nothing came
    scopes: tuple[Scope, ...] = ()  # what was searched
    as_of: UtcTime | None = None
    fragments: tuple[str, ...] = ()  # approved instructions for the system prompt; `inject` places them
    at: UtcTime


# ---------------------------------------------------------------- learned


class BINEvent(Record):
    """Friction: one (tool, failure mode) reached its threshold within one session."""

    tool: str
    failure_mode: str
    session_id: str
    agent: str = ""
    count: int
    threshold: int
    evidence: tuple[str, ...] = ()  # first, last and the most different occurrences
    fired_before: int = 0  # in how many earlier sessions the same pair fired
    at: UtcTime | None = None


class CorrectionSignal(Record):
    """A user turn that corrects the agent."""

    session_id: str
    turn: int
    kind: Literal["negation", "tool_override", "edit", "rewrite"]
    confidence: float
    text: str
    target: str | None = None  # what is corrected: the agent's text, or a call
    evidence: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()  # character offsets in the user's text that the signal rests on
    wanted: str | None = None  # X of "use X, not Y"
    unwanted: str | None = None  # Y
    rule: str = ""
    agent: str = ""
    project: str | None = None
    at: UtcTime | None = None
    source: Source | None = None


class SessionReflection(Record):
    """What one session's telemetry says: what worked, what failed, what could be changed, and the digest."""

    session_id: str
    successes: tuple[dict[str, Any], ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    proposals: tuple[dict[str, Any], ...] = ()
    telemetry_digest: dict[str, Any] = Field(default_factory=dict)
    dropped_without_evidence: int = 0
    written_by: str = "template"


class ErrorSignature(Record):
    """One kind of error message, counted."""

    id: str
    signature: str
    count: int
    severity: str
    agents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    first_seen: UtcTime | None = None
    last_seen: UtcTime | None = None
    example: str = ""
    evidence: tuple[str, ...] = ()


class Proposal(Record):
    """A change that a person decides on. `hash` binds a decision to what was shown."""

    id: str
    type: Literal[
        "new-tool", "modify-tool", "retire-tool", "system-prompt", "fact-update", "usage-guide", "code-fix",
        "promote-scope", "merge", "retire-memory",
    ]  # fmt: skip
    title: str
    description: str = ""
    evidence: tuple[str, ...] = ()
    payload: dict[str, Any] = Field(default_factory=dict)  # what would be applied
    base: dict[str, Any] = Field(
        default_factory=dict
    )  # ids and hashes of what it changes, to see that it is stale
    expected_impact: dict[str, Any] = Field(default_factory=dict)  # estimate, low, high, basis
    confidence: Literal["low", "medium", "high"] = "low"
    risk: Literal["low", "medium", "high"] = "low"
    state: ProposalState = ProposalState.PENDING
    created_at: UtcTime | None = None
    updated_at: UtcTime | None = None
    proposed_by: str = ""
    run_id: str = ""
    seen_count: int = 1
    note: str | None = None

    @property
    def hash(self) -> str:
        """Digest of everything that a reviewer is shown and that an approval would apply."""
        return digest(
            self.id,
            self.type,
            self.title,
            self.description,
            sorted(self.evidence),
            self.payload,
            self.base,
            self.risk,
        )


class Decision(Record):
    """What a named person decided on what they saw."""

    proposal_id: str
    verdict: Literal["approve", "modify", "reject", "defer", "escalate", "undo"]
    by: str
    seen_hash: str
    reason: str | None = None
    at: UtcTime


class Check(Record):
    """One thing that the doctor looked at."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None  # the next command, where it is not ok


class RunManifest(Record):
    """One notebook run: written first as `running`, replaced at the end."""

    run_id: str
    notebook: str
    status: Literal[
        "running", "ok", "nothing_to_do", "failed", "timeout", "interrupted", "skipped", "skipped_locked"
    ]
    exit_code: int | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    notebook_sha256: str = ""
    key: str = ""  # digest of notebook, parameters and window: the same key that ended ok is skipped
    started_at: UtcTime
    ended_at: UtcTime | None = None
    duration_s: float | None = None
    pid: int | None = None
    pid_mark: str = ""  # when that process began, to tell it from a later one with its number
    host: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    counts: dict[str, Any] = Field(default_factory=dict)
    error: dict[str, Any] | None = None
    artefacts: tuple[dict[str, Any], ...] = ()
    children: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def unique(items: Iterable[str]) -> tuple[str, ...]:
    """The items once each, in order of first appearance."""
    return tuple(dict.fromkeys(items))
