"""What an error message says without its values: comes in a message, goes out its template and a stable signature id.

A template keeps the words of a message and puts `<*>` where a value stood. Masking is a pure function of the message: no
state, no order, no locale. `grouping.group_messages` adds a second pass over a batch of templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sitoolkit.records import digest

__all__ = [
    "RULES_VERSION",
    "WILD",
    "is_technology",
    "mask_message",
    "mask_messages",
    "signature_id",
    "signature_of",
]

WILD = "<*>"
RULES_VERSION = 1  # raised when a change of the rules below gives another template for the same message

MAX_CHARS = 2_000  # of a message that count for its template; longer ones differ in what they quote, not in what they say
_MEMO_ENTRIES = 200_000  # bound of the memory of a long run; clearing it changes nothing but speed

# Letters that stand before digits in names of technologies: python3, sha256, utf8mb4, ipv6, x86_64 are words, not values.
_TECH_TEXT = """
    ac adler aes amd arm av avx base bf blake bz claude cp cpp crc css cuda des ec ed es ext f fat float fp
    gb gemini gpt grpc gtk gz h hdf html http i imap int ipv iso java jdk jre js k l latin llama log lz mb
    md mistral mp neo nfs ntfs oauth otf p perl phi php pkcs pop ps py python qt qwen raid rc ripemd rsa
    ruby s sha smb sql sqlite sse ssh ssl tls u ucs uint unicode usb utf v vp win woff x xxh zip
"""
_TECH = frozenset(_TECH_TEXT.split())

_FILE_ENDINGS = (
    "7z|a|app|arrow|avi|avro|bak|bash|bat|bin|bmp|bz2|c|cab|cat|cc|cer|cfg|class|cmd|conf|config|core|cpp|crt|cs|css|csv|d|dat|data|db|deb|"
    "diff|dll|dmg|docx?|duckdb|dylib|egg|env|err|etl|evtx|example|exe|feather|framework|gif|go|gz|hpp|h|html?|ico|img|inf|ini|ipynb|iso|"
    "jar|java|j2|jl|jpe?g|js|jsonl?|jsx|kext|key|kt|la|lance|lock|log|lua|m|manifest|map|md|min|mjs|cjs|mo|mov|mp3|mp4|mum|ndjson|npy|npz|"
    "o|old|orc|otf|out|parquet|patch|pdf|pem|php|pid|pkl|pl|plist|png|po|pptx?|properties|proto|ps1|pt|pub|pyc|pyi|py|qcow2|r|rar|rb|reg|rpm|"
    "rst|rs|rules|scala|service|sh|so|socket|sock|sql|sqlite3?|sqm|svg|swift|swp|sys|tar|template|tfvars|tf|tgz|tmp|toml|tpl|tsv|tsx|ts|ttf|txt|"
    "vmdk|vue|war|wav|webp|whl|woff2?|xlsx?|xml|xz|yaml|yml|zip|zsh|zst"
)
_UNIT = (
    r"(?:[kKMGTP]i?(?:[bB](?:/s|ps)?)?|[bB]|bytes?|[mnuµ]?s|ms?ecs?|secs?|seconds?|min|mins|minutes?|h|hrs?|hours?|d|days?"
    r"|[kKMG]?Hz|%|px|pt|[mck]?m|[CFWVA]|m[VAW]|mAh|x)"
)
_END = r"(?![0-9A-Za-z])"
_START = r"(?<![0-9A-Za-z])"
_HEX4 = r"[0-9a-fA-F]{1,4}"

# The first alternative that matches decides, so wholes stand before their parts: a URL before a host before a number.
_VALUE = re.compile(
    rf"""
 (?P<status>\b(?:HTTP-\d{{3}}|[Ee]rrno-\d{{1,3}})\b)
|(?P<octal>\\[0-7]{{3}}[^\s\\]*\\[0-7]{{3}})
|(?P<uuid>{_START}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_END})
|(?P<time>(?<![0-9A-Za-z.])\d{{4}}[-/.]\d\d?[-/.]\d\d?(?:[T:_-]\d\d[:.]\d\d(?:[:.]\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?{_END}
   |(?<![0-9A-Za-z.:])\d+(?::\d\d)+(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?![0-9A-Za-z:]))
|(?P<fqdn>(?<![\w.$@/-])(?:[A-Za-z0-9][\w-]*\.){{2,}}[a-z]{{2,}}(?::\d+)?(?![\w.(])(?!/\w))
|(?P<component>(?<![\w.$])(?:\w+\.)+\w+/\.?(?:[\w$]+\.)*[\w$]+)
|(?P<mac>(?<![0-9A-Za-z:])[0-9a-fA-F]{{2}}(?:[:-][0-9a-fA-F]{{2}}){{5,7}}(?![0-9A-Za-z:]))
|(?P<ipv4>/?(?<![0-9A-Za-z.])\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?:[:/]\d+)?(?![0-9A-Za-z]|\.\d))
|(?P<ipv6>\[?(?<![0-9A-Za-z:])(?=[0-9a-fA-F:]*[0-9a-fA-F])(?:(?:{_HEX4}:){{7}}{_HEX4}
   |(?:{_HEX4}(?::{_HEX4}){{0,6}})?::(?:{_HEX4}(?::{_HEX4}){{0,6}})?)(?:%\w+)?(?:/\d+)?(?![0-9A-Za-z:])(?:\]:\d+|\](?![^\s]))?)
|(?P<windows>{_START}[A-Za-z]:\\[^\s"'<>|,;*?()]*|(?<![\\\w])\\\\[\w.$?-]+\\[^\s"'<>|,;*?()]*|(?<![\w\\])[\w.~-]+(?:\\[\w.~-]+)+)
|(?P<posix>(?<![\w)\]>*/.])~?(?:\.{{1,2}})?/(?:[\w.@+~%$\#=:*-]+/)*[\w.@+~%$\#=:*-]*[\w@+~%$\#*-]/?(?!/))
|(?P<relative>(?<![\w/.])(?:[\w.@+-]+/){{2,}}[\w.@+-]*\w|(?<![\w/.])[\w.@+-]+/[\w.@+-]*\.(?:{_FILE_ENDINGS})(?!\w))
|(?P<mail>(?<![\w.])[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{{2,}}(?!\w))
|(?P<class>(?<![\w.$])[a-z_]\w*(?:\.[a-z_]\w*)+\.[A-Z][\w$]*(?:\.\w+)*(?::\d+)?(?![\w.(]))
|(?P<version>{_START}v?\d+(?:\.\d+)+(?:[-.]?(?:[a-z]+\d*|\d+))*(?:-[\w.]+)?{_END})
|(?P<ident>(?<![\w.$-])[A-Za-z][A-Za-z0-9]*(?:[_.\#-]+[A-Za-z0-9]+)*[_.\#-]+-?[A-Za-z]?\d[A-Za-z0-9]*(?:[_.\#:-]+[A-Za-z0-9]+)*(?![\w(]))
|(?P<dotted>(?<![\w.$])[a-z_][\w-]*(?:\.[a-z0-9_][\w-]*){{2,}}(?::\d+)?(?![\w.(])(?!/\w))
|(?P<host>(?<![\w.$])[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)+:\d{{2,5}}(?!\w))
|(?P<file>(?<![\w.$])[\w.-]*\w\.(?:{_FILE_ENDINGS})(?::\d+)*(?![\w.(-]))
|(?P<hex>{_START}[+-]?0[xX][0-9a-fA-F]+[hL]?{_END}
   |{_START}(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{4,}}{_END}|{_START}(?=[A-F]*\d)(?=\d*[A-F])[0-9A-F]{{6,}}{_END})
|(?P<number>{_START}[+-]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)*(?:[eE][+-]?\d+)?{_UNIT}?{_END})
|(?P<axis>{_START}[xyzXYZ][+-](?![\w>]))
|(?P<duration>{_START}(?:\d+(?:\.\d+)?(?:d|h|m|s|ms|us|ns)){{2,}}{_END})
|(?P<constant>(?<![\w.$-])(?:true|false|null|nil|True|False|None|NULL|TRUE|FALSE)(?![\w.(-]))
|(?P<mixed>{_START}[0-9]*[A-Za-z]+[0-9][0-9A-Za-z]*{_END}|{_START}[0-9]+[A-Za-z]+[0-9A-Za-z]*{_END})
""",
    re.X,
)
_MAY_HOLD_VALUE = re.compile(
    r"[0-9/\\@.:]|[xyzXYZ][+-]|true|false|null|nil|True|False|None|NULL|TRUE|FALSE"
).search
_KEY_VALUE = re.compile(
    r"""(?<=[\w\])])=(?![=~>])("[^"]*"|'[^']*'|[^\s,;(){}\[\]"'<>&|]+(?:\{[^{}\s]*\})?)"""
)
_STATE = re.compile(r"[A-Z][A-Z_]+[A-Z]")  # ACTION_DOWN is a state of the program, not a value of the moment
_QUOTED = re.compile(
    r"""(?<![\w\\])"(?!(?:GET|POST|PUT|DELETE|HEAD|PATCH|OPTIONS|CONNECT)\b)[^"\n]{0,80}"(?!\w)"""
    r"""|(?<![\w\\])'[^'\n]{1,80}'(?!\w)|`[^`\n]{1,80}`"""
)
_STATUS = re.compile(  # a status or errno names the kind of error, so it stays
    r"\b(HTTP|[Ee]rrno)(?:/\d(?:\.\d)?)?(?: (?:status|error|response)(?: code)?)?[ :=]+(\d{1,3})\b"
)
_WINDOWS_PATH = re.compile(  # folders may hold spaces where a backslash follows; the last part may not
    r"(?<![A-Za-z0-9])[A-Za-z]:\\(?:[^\\/:*?\"'<>|\s][^\\/:*?\"'<>|\r\n]{0,80}\\)*[^\\/:*?\"'<>|\s,;()\]]*"
)
_JOINTS = re.compile(r"[_.#:-]+")
_URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>()\[\]{},;|]*[^\s"'<>()\[\]{},;|.:!?]""")
_RUNS = re.compile(r"[A-Za-z]+|\d+")
_FAULT_NAME = re.compile(r"(?:Exception|Error|Failure|Warning|Fault|Interrupt|Timeout|Exit|Denied|Refused)$")
_ERROR_CODE = re.compile(r"(?:[A-Z]{1,6}-?\d{3,6})(?=:|\]|$)")
_DIGITS = dict.fromkeys(range(ord("0"), ord("9") + 1), "0")

_STRONG_SLOT = r"user|username|login|account|hostname"
_NOT_A_NAME = (
    r"a|an|the|is|was|are|were|has|have|had|not|does|did|do|in|on|at|to|for|from|of|and|or|by|with|as|be|been|unknown|request|requested|requests|"
    r"name|id|ids|data|error|errors|failed|failure|failures|info|level|mode|agent|already|cannot|can|could|will|should|must|may|input|type|"
    r"session|sessions|process|processes|space|defined|authentication|agents|table|list|group|groups|exists|found|missing|invalid|"
    r"logged|login|logout|password|credentials|count|limit|access|profile|settings|event|events|key|code|action|actions|details|too"
)
_TIDY: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<!\S)\(\)"), f"({WILD})"),  # an empty value is a value
    (re.compile(r"(?:(?<=[\s(\[,;:=])|^)[-+~]<\*>|(?<![\w>])[#$@]<\*>|<<\*>>"), WILD),
    (re.compile(r"<(?=<\*>)"), ""),
    (re.compile(r"[\"'`]<\*>[\"'`]"), WILD),
    (re.compile(r"<\*>%"), WILD),
    (re.compile(r"<\*>\s(?:[bB]|bytes?|[kKMGTP]i?[bB]|[mnuµ]?s|ms?ecs?|secs?|seconds?|milliseconds|mins?|minutes?|hours?|days?|[kKMG]?Hz)(?![\w/])"), WILD),
    (re.compile(r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* <\*>"), WILD),
    (re.compile(r"\b(invalid user) (?!from\b)\S+(?: \S+)?(?= from\b| \[|$)", re.I), rf"\1 {WILD}"),
    (re.compile(rf"\b({_STRONG_SLOT})(:?) (?!(?:{_NOT_A_NAME})\b)[\w][\w.$@-]*(?![\w=(<*'\"])", re.I), rf"\1\2 {WILD}"),
    (re.compile(r"(?<=\( )(?:on|off)(?: (?:on|off))*(?= \))"), WILD),
    (re.compile(r"<\*>(?:[:.,/_#|+~@-]{1,2}<\*>)+"), WILD),
    (re.compile(r"<\*>(?:,? (?:<\*>|\*{2,}))+"), WILD),
)  # fmt: skip


def is_technology(word: str) -> bool:
    """Whether letters and digits are a name that people know: python3, sha256, utf8mb4, ipv6."""
    if word.lower() in ("k8s", "i18n", "l10n", "a11y"):
        return True
    if len(word) > 8 or not word.isalnum() or word.isalpha() or word[0].isdigit():
        return False
    runs = _RUNS.findall(word)
    letters = [run.lower() for run in runs if run.isalpha()]
    return len(runs) <= 4 and all(run in _TECH and (len(run) > 1 or len(runs) == 2) for run in letters)


def _mixed(word: str) -> str:
    """Letters and digits without a separator: `python3` is a word, `j0FLXIl0001234` an id, `12ms` was a number before."""
    if is_technology(word):
        return word
    runs = _RUNS.findall(word)
    digits = sum(len(run) for run in runs if run.isdigit())
    if digits >= 5 or (len(runs) >= 4 and len(word) >= 8) or (word[0].isdigit() and len(runs) >= 3):
        return WILD
    return word


def _ident(word: str) -> str:
    """A name with numbered parts: `blk_12`, `node-128`, `R30-M0-L1` are ids; `x86_64`, `utf-8`, `sha-256` are words."""
    parts = _JOINTS.split(word)
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        if is_technology(part) or (
            len(part) > 1 and part.lower() in _TECH and following.isdigit() and len(following) <= 4
        ):
            return word
    return WILD


def _replace(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found.group()
    if kind == "status":
        return text
    if kind == "mixed":
        if _ERROR_CODE.match(found.string, found.start()):
            return text
        return _mixed(text)
    if kind == "ident":
        if _ERROR_CODE.match(found.string, found.start()):
            return text
        return _ident(text)
    if kind == "class" and (_FAULT_NAME.search(text) or re.search(r"\.[A-Z][A-Z_]+$", text)):
        return text
    if kind == "dotted" and text.rpartition(".")[2].isupper():
        return text
    return WILD


def _key_value(found: re.Match[str]) -> str:
    return found.group() if _STATE.fullmatch(found.group(1)) else "=" + WILD


def _mask_token(token: str) -> str:
    if "://" in token:
        token = _URL.sub(WILD, token)
    if "=" in token:
        token = _KEY_VALUE.sub(_key_value, token)
    return _VALUE.sub(_replace, token) if _MAY_HOLD_VALUE(token) else token


_tokens: dict[str, str] = {}
_shapes: dict[str, str | None] = {}
_tidied: dict[str, str] = {}


def _token(token: str) -> str:
    """Mask one token by its shape (digits alike) where that decides, so that a new number costs no regular expression."""
    if len(_tokens) > _MEMO_ENTRIES or len(_shapes) > _MEMO_ENTRIES:
        _tokens.clear()
        _shapes.clear()
    shape = token.translate(_DIGITS)
    if shape != token or shape in _shapes:
        try:
            masked = _shapes[shape]
        except KeyError:
            whole = _mask_token(shape)
            masked = _shapes[shape] = None if "0" in whole else whole
        if masked is not None:
            if len(token) < 12:
                _tokens[token] = masked
            return masked
    masked = _tokens[token] = _mask_token(token)
    return masked


def mask_message(message: str) -> str:
    """The template of one message.

    >>> mask_message("Connection to 10.0.0.7:5432 timed out after 1250ms")
    'Connection to <*> timed out after <*>'

    Args:
        message: the text without the head of its log line (see `loglines.parse_line`); 2,000 characters of it count.
    """
    return next(iter(mask_messages((message,))))


def mask_messages(messages: Iterable[str]) -> list[str]:
    """The template of each message, in order; the same as `mask_message` of each, faster."""
    known = _tokens.get
    tidied = _tidied
    if len(tidied) > _MEMO_ENTRIES:
        tidied.clear()
    templates = []
    for message in messages:
        if len(message) > MAX_CHARS:
            message = message[:MAX_CHARS]
        if "HTTP" in message or "rrno" in message:
            message = _STATUS.sub(r"\1-\2", message)
        if ":\\" in message:
            message = _WINDOWS_PATH.sub(WILD, message)
        if '"' in message or "'" in message or "`" in message:
            message = _QUOTED.sub('"<*>"', message)
        joined = " ".join([known(token) or _token(token) for token in message.split()])
        template = tidied.get(joined)
        if template is None:
            template = joined
            for pattern, replacement in _TIDY:
                template = pattern.sub(replacement, template)
            tidied[joined] = template
        templates.append(template)
    return templates


def signature_id(template: str) -> str:
    """The id of a template: `sig_` and 16 hex digits, the same on every machine and in every run."""
    return "sig_" + digest("signature", RULES_VERSION, template)[:16]


def signature_of(message: str) -> str:
    """The signature id of one message taken alone, without a batch to compare it with."""
    return signature_id(mask_message(message))
