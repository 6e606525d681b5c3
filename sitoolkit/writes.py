"""Does a call change state? Comes in a tool call, goes out yes or no with the reason.

What is known beats what is guessed: the workspace's own lists, then the tool's annotation, then what the arguments say (a
shell command, an SQL statement, an HTTP method, an `action`), then the verb at the head of the tool's name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from sitoolkit.records import Outcome, ToolInvocation
from sitoolkit.settings import Settings

__all__ = [
    "SEED_VERBS",
    "WRITE_VERBS",
    "is_precedent",
    "is_write_call",
    "name_words",
    "succeeded",
    "why_write",
]

# The fifteen of seed document 000: the floor.
SEED_VERBS = frozenset(
    [
        "register",
        "deploy",
        "push",
        "save",
        "destroy",
        "write",
        "record",
        "emit",
        "export",
        "ingest",
        "stop",
        "create",
        "update",
        "delete",
        "exec",
    ]
)
# What tools in recorded transcripts are called beside them.
WRITE_VERBS = SEED_VERBS | frozenset(
    [
        "abort",
        "accept",
        "activate",
        "add",
        "adjust",
        "allocate",
        "amend",
        "annotate",
        "append",
        "apply",
        "approve",
        "archive",
        "assign",
        "attach",
        "authorize",
        "ban",
        "block",
        "book",
        "buy",
        "cancel",
        "change",
        "charge",
        "checkin",
        "checkout",
        "checkpoint",
        "clean",
        "cleanup",
        "clear",
        "click",
        "clone",
        "close",
        "commit",
        "complete",
        "configure",
        "confirm",
        "connect",
        "copy",
        "craft",
        "deactivate",
        "decline",
        "delegate",
        "deny",
        "deposit",
        "detach",
        "disable",
        "disconnect",
        "dispatch",
        "drag",
        "drop",
        "edit",
        "enable",
        "enqueue",
        "enroll",
        "enter",
        "escalate",
        "evict",
        "exchange",
        "fill",
        "fix",
        "forward",
        "grant",
        "import",
        "increase",
        "init",
        "initialize",
        "insert",
        "install",
        "invite",
        "issue",
        "kill",
        "label",
        "launch",
        "link",
        "lock",
        "log",
        "mark",
        "merge",
        "migrate",
        "modify",
        "mount",
        "move",
        "mutate",
        "open",
        "order",
        "overwrite",
        "patch",
        "pause",
        "pay",
        "pin",
        "place",
        "post",
        "process",
        "promote",
        "provision",
        "publish",
        "purchase",
        "purge",
        "put",
        "queue",
        "quarantine",
        "reassign",
        "reboot",
        "rebuild",
        "reconfigure",
        "refund",
        "reindex",
        "reject",
        "release",
        "reload",
        "remove",
        "rename",
        "reopen",
        "reorder",
        "replace",
        "reply",
        "report",
        "reschedule",
        "reserve",
        "reset",
        "resize",
        "resolve",
        "restart",
        "restore",
        "resume",
        "retire",
        "return",
        "revert",
        "revoke",
        "rollback",
        "rotate",
        "scale",
        "schedule",
        "seed",
        "send",
        "set",
        "share",
        "ship",
        "shutdown",
        "sign",
        "snapshot",
        "spawn",
        "start",
        "stash",
        "store",
        "submit",
        "subscribe",
        "suspend",
        "swap",
        "sync",
        "tag",
        "terminate",
        "toggle",
        "trade",
        "trigger",
        "truncate",
        "type",
        "unassign",
        "unblock",
        "undeploy",
        "undo",
        "uninstall",
        "unlink",
        "unlock",
        "unmount",
        "unpin",
        "unregister",
        "unsubscribe",
        "upgrade",
        "upload",
        "upsert",
        "vote",
        "withdraw",
    ]
)
_READ_VERBS = frozenset(
    [
        "analyze",
        "ask",
        "browse",
        "calculate",
        "can",
        "check",
        "compare",
        "compute",
        "count",
        "describe",
        "detect",
        "diff",
        "display",
        "download",
        "dry",
        "echo",
        "estimate",
        "evaluate",
        "examine",
        "explain",
        "explore",
        "extract",
        "fetch",
        "filter",
        "find",
        "get",
        "glob",
        "grep",
        "has",
        "head",
        "help",
        "inspect",
        "is",
        "list",
        "load",
        "locate",
        "look",
        "lookup",
        "ls",
        "measure",
        "monitor",
        "observe",
        "peek",
        "ping",
        "plan",
        "poll",
        "predict",
        "preview",
        "probe",
        "query",
        "read",
        "recall",
        "recommend",
        "retrieve",
        "review",
        "scan",
        "scrape",
        "screenshot",
        "search",
        "see",
        "select",
        "show",
        "stat",
        "status",
        "suggest",
        "summarize",
        "tail",
        "test",
        "think",
        "translate",
        "validate",
        "verify",
        "view",
        "wait",
        "watch",
        "whoami",
    ]
)
# Words that are as often a noun: "order_status" and "post_search" read.
_NOUNS_TOO = frozenset(
    [
        "book",
        "commit",
        "export",
        "label",
        "link",
        "log",
        "order",
        "post",
        "process",
        "queue",
        "record",
        "release",
        "report",
        "schedule",
        "seed",
        "snapshot",
        "store",
        "tag",
        "type",
        "import",
        "patch",
    ]
)
_STATE_NOUNS = frozenset(
    [
        "count",
        "detail",
        "details",
        "exists",
        "history",
        "info",
        "list",
        "log",
        "logs",
        "metadata",
        "state",
        "stats",
        "status",
        "summary",
    ]
)
_LEADING = frozenset(
    [
        "api",
        "async",
        "auto",
        "batch",
        "bulk",
        "call",
        "do",
        "execute",
        "functions",
        "perform",
        "please",
        "run",
        "tool",
        "tools",
        "try",
        "v1",
        "v2",
    ]
)
_ADJECTIVES = frozenset(
    ["current", "last", "latest", "most", "next", "pending", "previous", "recent", "scheduled", "since"]
)
_HANDOFF = re.compile(r"^(transfer|hand_?off|delegate|escalate)_?to_")

_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=8192)
def name_words(tool: str) -> tuple[str, ...]:
    """A tool's name in lower-case words, split on `_ - . / :` and camelCase; of an MCP name the part after the server.

    >>> name_words("mcp__dns__updateRecord")
    ('update', 'record')
    """
    own = tool.rsplit("__", 1)[-1] if tool.startswith("mcp__") else tool
    return tuple(word.lower() for word in _CAMEL.findall(own))


def is_write_call(call: ToolInvocation, settings: Settings | None = None) -> bool:
    """Whether the call changes state, as far as its name, arguments and annotation tell.

    >>> is_write_call(ToolInvocation(session_id="s", seq=0, tool="get_update_status", source=Source(file="f")))
    False

    Args:
        call: the call; its outcome does not matter here.
        settings: the workspace's; `capture.write_tools` and `capture.read_tools` (names or globs) win over everything.
    """
    return why_write(call, settings)[0]


def why_write(call: ToolInvocation, settings: Settings | None = None) -> tuple[bool, str]:
    """The verdict of `is_write_call` with the rule that gave it."""
    if settings is not None:
        if _listed(call.tool, settings.capture.write_tools):
            return True, "listed in capture.write_tools"
        if _listed(call.tool, settings.capture.read_tools):
            return False, "listed in capture.read_tools"
    if call.is_write is not None:
        return call.is_write, "the tool's own annotation"
    by_name, word = _by_name(call.tool)
    if by_name and word in SEED_VERBS:
        told = _by_action(call.args) if len(name_words(call.tool)) > 1 and word not in ("exec",) else None
        return (
            (told, "its action argument")
            if told is False and _several_actions(call.tool)
            else (True, f"verb {word!r}")
        )
    told, why = _by_args(call.tool, call.args)
    if told is not None:
        return told, why
    return (by_name, f"verb {word!r}" if word else "no verb known")


def is_precedent(call: ToolInvocation, settings: Settings | None = None) -> bool:
    """A call that changed state and is known to have succeeded, on a branch that was not given up: one to learn from."""
    return succeeded(call) and is_write_call(call, settings)


def succeeded(call: ToolInvocation) -> bool:
    """The call ran, came back well, and its branch was not given up."""
    return call.outcome is Outcome.SUCCESS and call.ran and not call.abandoned


def _listed(tool: str, names: tuple[str, ...]) -> bool:
    return bool(names) and any(tool == name or fnmatchcase(tool, name) for name in names)


def _several_actions(tool: str) -> bool:
    return name_words(tool)[-1] in ("tool", "editor", "manager", "client")


@lru_cache(maxsize=8192)
def _by_name(tool: str) -> tuple[bool, str]:
    words = name_words(tool)
    if _HANDOFF.match("_".join(words)):
        return False, "transfer"
    at = 0
    while at < len(words) - 1 and words[at] in _LEADING:
        at += 1
    words = words[at:]
    for place, word in enumerate(words):
        if word in _READ_VERBS:
            joined = [
                other
                for joint, other in zip(words[place:], words[place + 1 :], strict=False)
                if joint in ("and", "or")
            ]
            both = next((other for other in joined if other in WRITE_VERBS), None)
            return (True, both) if both else (False, word)
        if word in _ADJECTIVES:
            break
        if word in WRITE_VERBS:
            rest = words[place + 1 :]
            noun = word in _NOUNS_TOO and bool(rest) and (rest[-1] in _READ_VERBS or rest[-1] in _STATE_NOUNS)
            trailing = word in _NOUNS_TOO and place > 0 and not rest and word not in SEED_VERBS
            if noun or trailing:
                return False, rest[-1] if rest else word
            return True, word
    return False, ""


# ---------------------------------------------------------------- arguments

_SHELL_TOOLS = frozenset(
    ["bash", "shell", "terminal", "sh", "zsh", "cmd", "powershell", "console", "command", "commands"]
)
_HTTP_TOOLS = frozenset(
    [
        "http",
        "https",
        "request",
        "requests",
        "fetch",
        "curl",
        "api",
        "rest",
        "invoke",
        "webhook",
        "url",
        "call",
    ]
)
_SHELL_KEYS = ("command", "cmd", "script", "bash", "keystrokes", "code")
_SQL_KEYS = ("sql", "query", "statement", "command", "q")
_METHOD_KEYS = ("method", "http_method", "httpMethod", "verb", "request_method")
_ACTION_KEYS = ("action", "operation", "op", "command", "mode")
_TELLING = frozenset((*_SHELL_KEYS, *_SQL_KEYS, *_METHOD_KEYS, *_ACTION_KEYS))


def _by_args(tool: str, args: Any) -> tuple[bool | None, str]:
    words = set(name_words(tool))
    if isinstance(args, str):
        args = {"command": args}
    if not isinstance(args, Mapping) or _TELLING.isdisjoint(args):
        return None, ""
    for key in _SQL_KEYS:
        value = args.get(key)
        if isinstance(value, str):
            verdict = _sql_writes(value)
            if verdict is not None:
                return verdict, "SQL statement"
    method = next((args[key] for key in _METHOD_KEYS if isinstance(args.get(key), str)), None)
    if method and (words & _HTTP_TOOLS or any(key in args for key in ("url", "uri", "path", "endpoint"))):
        if method.upper() in ("POST", "PUT", "PATCH", "DELETE"):
            return True, f"HTTP method {method.upper()}"
        if method.upper() in ("GET", "HEAD", "OPTIONS"):
            return False, f"HTTP method {method.upper()}"
    action = _by_action(args)
    if action is not None:
        return action, "its action argument"
    if words & _SHELL_TOOLS or "cmd" in args or words & {"exec", "execute"}:
        for key in _SHELL_KEYS:
            value = args.get(key)
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                value = value[-1] if len(value) == 3 and value[1] in ("-c", "-lc") else shlex.join(value)
            if isinstance(value, str):
                writes = shell_writes(value)
                return writes, "shell command"
    return None, ""


def _by_action(args: Any) -> bool | None:
    if not isinstance(args, Mapping):
        return None
    for key in _ACTION_KEYS:
        value = args.get(key)
        if isinstance(value, str) and 0 < len(value) <= 40 and re.fullmatch(r"[A-Za-z][A-Za-z_.-]*", value):
            writes, word = _by_name(value)
            if word and value.lower() not in _PROGRAMS_AS_WORDS:
                return writes
    return None


_PROGRAMS_AS_WORDS = frozenset(
    [
        "install",
        "link",
        "kill",
        "mount",
        "ls",
        "tail",
        "head",
        "stat",
        "diff",
        "find",
        "grep",
        "test",
        "echo",
        "clear",
        "reboot",
        "shutdown",
    ]
)

_SQL_WRITE = re.compile(
    r"(insert\s+(or\s+\w+\s+)?into|update\s+[\w.\"`\[\]]+\s+(as\s+\w+\s+)?set|delete\s+from|merge\s+into|replace\s+into|upsert\s+into"
    r"|(create|drop|alter|truncate)\s+(or\s+replace\s+)?(temp(orary)?\s+|unique\s+|external\s+|materialized\s+)*"
    r"(table|view|index|database|schema|function|trigger|role|user|sequence|type|extension)\b|truncate\s+\w|grant\s+\w+|revoke\s+\w+"
    r"|copy\s+\S+\s+from|mutation\b\s*\w*\s*[({])",
    re.IGNORECASE,
)
_SQL_READ = re.compile(
    r"(select\b.+?\bfrom\b|select\s+[\d'*(]|show\s+\w+|describe\s+\w+|explain\s+\w+|pragma\s+\w+|values\s*\()",
    re.IGNORECASE | re.DOTALL,
)
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SQL_TEXT = re.compile(r"'(?:[^']|'')*'")


def _sql_writes(text: str) -> bool | None:
    """True or false for SQL (and GraphQL mutations); None where the text is something else."""
    head = _SQL_TEXT.sub("''", _SQL_COMMENT.sub(" ", text[:20_000]))
    verdict: bool | None = None
    for statement in head.split(";"):
        statement = statement.strip()
        if re.match(r"with\b", statement, re.IGNORECASE):
            if re.search(r"\)\s*(insert\s+into|update\s+\S+\s+set|delete\s+from)", statement, re.IGNORECASE):
                return True
            verdict = False if _SQL_READ.search(statement) else verdict
        elif _SQL_WRITE.match(statement):
            return True
        elif _SQL_READ.match(statement):
            verdict = False
    return verdict


_ANY = frozenset({"*"})
_PROGRAMS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ["rm", "mv", "cp", "mkdir", "rmdir", "touch", "chmod", "chown", "chgrp", "ln", "dd", "tee", "truncate", "install", "kill", "pkill", "killall", "reboot", "shutdown", "unlink", "rsync", "scp", "patch", "mkfs", "mount", "umount", "useradd", "userdel", "usermod", "crontab", "apply_patch", "shred", "unzip", "untar", "wall", "mail", "sendmail", "iptables", "dropdb", "createdb"],
        _ANY,
    ),
    "git": frozenset(
        ["add", "am", "apply", "branch", "checkout", "cherry-pick", "clean", "clone", "commit", "fetch", "init", "merge", "mv", "pull", "push", "rebase", "reset", "restore", "revert", "rm", "stash", "switch", "tag", "worktree"]
    ),
    "gh": frozenset(["create", "merge", "close", "edit", "delete", "comment", "reopen", "review"]),
    "systemctl": frozenset(["start", "stop", "restart", "reload", "enable", "disable", "mask", "unmask", "kill", "isolate", "daemon-reload"]),
    "service": frozenset(["start", "stop", "restart", "reload"]),
    "kubectl": frozenset(["apply", "create", "delete", "scale", "patch", "edit", "replace", "annotate", "label", "drain", "cordon", "uncordon", "rollout", "expose", "run", "set", "taint"]),
    "helm": frozenset(["install", "upgrade", "uninstall", "rollback", "delete"]),
    "terraform": frozenset(["apply", "destroy", "import", "taint", "untaint"]),
    "sqlite3": frozenset(), "psql": frozenset(), "mysql": frozenset(), "duckdb": frozenset(),
}  # fmt: skip
_PROGRAMS.update(
    dict.fromkeys(
        ["docker", "podman", "docker-compose"],
        frozenset(
            [
                "build",
                "commit",
                "cp",
                "create",
                "down",
                "exec",
                "import",
                "kill",
                "load",
                "network",
                "pause",
                "prune",
                "pull",
                "push",
                "rename",
                "restart",
                "rm",
                "rmi",
                "run",
                "start",
                "stop",
                "tag",
                "unpause",
                "up",
                "update",
                "volume",
            ]
        ),
    )
)
_PROGRAMS.update(
    dict.fromkeys(
        [
            "pip",
            "pip3",
            "npm",
            "pnpm",
            "yarn",
            "apt",
            "apt-get",
            "dnf",
            "yum",
            "brew",
            "cargo",
            "gem",
            "uv",
            "poetry",
            "conda",
        ],
        frozenset(
            [
                "add",
                "build-dep",
                "ci",
                "i",
                "install",
                "publish",
                "purge",
                "reinstall",
                "remove",
                "sync",
                "uninstall",
                "update",
                "upgrade",
            ]
        ),
    )
)
_READ_ONLY_SUB = {"branch": {"", "-a", "-v", "-vv", "--list", "-r", "--show-current"}, "tag": {"", "-l", "--list"}, "stash": {"list", "show"},
                  "fetch": {"--dry-run"}, "worktree": {"list"}, "rollout": {"status", "history"}, "network": {"ls", "inspect"},
                  "volume": {"ls", "inspect"}}  # fmt: skip
_WRAPPERS = frozenset(
    [
        "sudo",
        "env",
        "time",
        "nice",
        "nohup",
        "timeout",
        "exec",
        "command",
        "xargs",
        "then",
        "do",
        "else",
        "builtin",
        "stdbuf",
    ]
)
_CLOUD = frozenset(["aws", "gcloud", "az", "doctl", "flyctl", "heroku", "vercel", "gsutil", "s3cmd", "mc"])
_REDIRECT = re.compile(r"(?<![<>=\-&0-9])(?:[12&])?>{1,2}\|?\s*(?![&>(=])(['\"]?)([^\s'\"|;&<>]+)")


def shell_writes(command: str) -> bool:
    """Whether a shell command changes files, processes, packages or something remote.

    >>> shell_writes("cd /srv && git log | tail -3"), shell_writes("git commit -m x")
    (False, True)
    """
    text = re.split(r"<<-?\s*['\"]?\w+", command[:20_000], maxsplit=1)[0]
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", "''", text)
    for found in _REDIRECT.finditer(bare):
        if not found.group(2).startswith("/dev/"):
            return True
    return any(_segment_writes(part) for part in _segments(text))


def _segments(text: str) -> Iterable[list[str]]:
    for line in text.splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()")
            lexer.whitespace_split = True
            lexer.commenters = "#"
            tokens = list(lexer)
        except ValueError:  # an open quote: words are good enough
            tokens = line.split()
        part: list[str] = []
        for token in tokens:
            if token and set(token) <= set(";|&()"):
                yield part
                part = []
            else:
                part.append(token)
        yield part


def _segment_writes(words: list[str]) -> bool:
    while words and (
        words[0].rsplit("/", 1)[-1] in _WRAPPERS or re.match(r"^\w+=|^-|^\d+[smh]?$|^\{$", words[0])
    ):
        words = words[1:]
    if not words:
        return False
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if program in ("bash", "sh", "zsh") and "-c" in rest[:-1]:
        return shell_writes(rest[rest.index("-c") + 1])
    if program in ("sed", "perl"):
        return any(re.match(r"-[a-zA-Z]*i", word) for word in rest)
    if program == "find":
        return "-delete" in rest or any(
            rest[at] == "-exec" and _segment_writes(rest[at + 1 :]) for at in range(len(rest))
        )
    if program in ("curl", "http", "https", "httpie", "xh"):
        flags = " ".join(rest)
        return bool(
            re.search(
                r"(?<!\S)(-X\s*|--request[ =])?(POST|PUT|PATCH|DELETE)(?!\S)|(?<!\S)(-d|--data\S*|-F|--form|-T|--upload-file|--json)(?!\S)",
                flags,
            )
        )
    if program == "make":
        return any(word in ("install", "deploy", "clean", "release", "publish", "uninstall") for word in rest)
    if program == "tar":
        return bool(rest) and bool(re.match(r"-?[a-zA-Z]*[xcru]", rest[0]))
    if program in _CLOUD:
        return any(_by_name(word)[0] for word in rest[:4] if re.fullmatch(r"[a-z][a-z0-9-]*", word)) or any(
            word in ("rm", "mv", "cp", "mb", "rb") for word in rest[:4]
        )
    if program not in _PROGRAMS:
        return False
    verbs = _PROGRAMS[program]
    if verbs is _ANY:
        return True
    if not verbs:
        return any(_sql_writes(word) for word in rest)
    plain = [word for word in rest if not word.startswith("-")]
    if program == "git" and rest[:1] == ["-C"]:
        plain = plain[1:]
    at = next((place for place, word in enumerate(plain[:3]) if word in verbs), None)
    if at is None or "--dry-run" in rest:
        return False
    if program == "git" and at > 0:
        return False
    following = rest[rest.index(plain[at]) + 1 :]
    return (following[0] if following else "") not in _READ_ONLY_SUB.get(plain[at], ())
