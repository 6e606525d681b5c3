"""Comes in: text. Goes out: the secrets in it that can be told by themselves, by how they begin.

Formats are the vendors' own, checked against the rules of detect-secrets and gitleaks. Every quantifier is bounded, so that no
text makes a pattern backtrack for long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sitoolkit.secrets.names import looks_random
from sitoolkit.secrets.spans import Span, occurrences
from sitoolkit.secrets.views import LINE_BREAK, next_line

__all__ = ["SHAPES", "by_shape"]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# literal -> (kind, what follows the literal). The character before must not be a letter or a digit, nor one after.
SHAPES: tuple[tuple[str, str, str], ...] = (
    ("sk-ant-", "anthropic", r"[a-z]{2,8}\d{2}-[A-Za-z0-9_-]{16,200}"),
    ("sk-proj-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-svcacct-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-admin-", "openai", r"[A-Za-z0-9_-]{12,200}"),
    ("sk-or-v1-", "openrouter", r"[0-9a-f]{32,128}"),
    ("sk-lf-", "langfuse", _UUID),
    ("pk-lf-", "langfuse", _UUID),
    ("sk-", "openai", r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{20,80}"),
    ("ghp_", "github", r"[A-Za-z0-9]{20,255}"),
    ("gho_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghu_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghs_", "github", r"[A-Za-z0-9]{20,255}"),
    ("ghr_", "github", r"[A-Za-z0-9]{20,255}"),
    ("github_pat_", "github", r"[A-Za-z0-9_]{20,255}"),
    ("glpat-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("gldt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glrt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glcbt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glptt-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glsoat-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("glagent-", "gitlab", r"[A-Za-z0-9_.-]{18,300}"),
    ("AKIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ASIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ABIA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("ACCA", "aws_access_key_id", r"(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}"),
    ("AIza", "google_api_key", r"[A-Za-z0-9_-]{35}"),
    ("ya29.", "google_oauth", r"[A-Za-z0-9_-]{20,400}"),
    ("GOCSPX-", "google_oauth", r"[A-Za-z0-9_-]{20,60}"),
    ("xoxb-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxp-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxa-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxs-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxr-", "slack", r"[A-Za-z0-9-]{10,250}"),
    ("xoxe", "slack", r"[.-][A-Za-z0-9.-]{10,350}"),
    ("xapp-", "slack", r"\d-[A-Za-z0-9-]{10,250}"),
    ("hooks.slack.com/", "slack_webhook", r"(?:services|workflows|triggers)/[A-Za-z0-9_+/-]{8,200}"),
    ("discord.com/api/webhooks/", "discord_webhook", r"\d{5,25}/[A-Za-z0-9_-]{20,100}"),
    ("sk_live_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("sk_test_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("rk_live_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("rk_test_", "stripe", r"[A-Za-z0-9]{10,250}"),
    ("whsec_", "stripe", r"[A-Za-z0-9+/=]{16,100}"),
    ("hf_", "huggingface", r"[A-Za-z0-9]{30,60}"),
    ("SG.", "sendgrid", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("npm_", "npm", r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{30,60}"),
    ("pypi-", "pypi", r"[A-Za-z0-9_-]{50,300}"),
    ("lsv2_", "langsmith", r"(?:pt|sk)_[0-9a-f]{24,64}(?:_[0-9a-f]{6,20})?"),
    ("lsv2_", "langsmith", r"(?:pt|sk)_[A-Za-z0-9_]{24,64}"),
    ("gsk_", "groq", r"[A-Za-z0-9]{30,100}"),
    ("tvly-", "tavily", r"[A-Za-z0-9_-]{16,80}"),
    ("eyJ", "jwt", r"[A-Za-z0-9_-]{6,4000}\.eyJ[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,2000})?"),
    ("eyJ", "jwt", r"[A-Za-z0-9_-]{6,4000}(?:\.[A-Za-z0-9_-]{0,8000}){4}"),
    ("otpauth://", "otp_seed", r"[^\s\"'<>\\]{8,500}"),
    ("xai-", "xai", r"[A-Za-z0-9]{40,120}"),
    ("pplx-", "perplexity", r"[A-Za-z0-9]{32,80}"),
    ("r8_", "replicate", r"[A-Za-z0-9]{30,60}"),
    ("nvapi-", "nvidia", r"[A-Za-z0-9_-]{40,100}"),
    ("dop_v1_", "digitalocean", r"[a-f0-9]{64}"),
    ("dckr_pat_", "docker", r"[A-Za-z0-9_-]{20,60}"),
    ("glsa_", "grafana", r"[A-Za-z0-9_]{32,60}"),
    ("hvs.", "vault", r"[A-Za-z0-9_-]{20,200}"),
    ("shpat_", "shopify", r"[a-fA-F0-9]{32}"),
    ("ATATT3", "atlassian", r"[A-Za-z0-9_=-]{40,250}"),
    ("lin_api_", "linear", r"[A-Za-z0-9]{30,60}"),
    ("PMAK-", "postman", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("dapi", "databricks", r"[a-f0-9]{32}"),
    ("figd_", "figma", r"[A-Za-z0-9_-]{30,60}"),
    ("AGE-SECRET-KEY-1", "age", r"[A-Z0-9]{50,64}"),
)  # fmt: skip

# literal, kind, pattern from the literal on with its right border, the same without it
_RULES = tuple(
    (
        literal,
        kind,
        re.compile(re.escape(literal) + tail + r"(?![A-Za-z0-9])"),
        re.compile(re.escape(literal) + tail),
    )
    for literal, kind, tail in SHAPES
)
_TWILIO = re.compile(r"(?<![A-Za-z0-9])(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9])")
# Anchored at a sign in their middle, since their first characters are too common to search for.
_TELEGRAM = re.compile(r":(?<=\d{8}:)[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")
_TELEGRAM_ID = re.compile(r"(?:(?<![\w:])|(?<=bot))\d{8,10}$")
_DISCORD = re.compile(r"\.(?<=[A-Za-z0-9_-]{23}\.)[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])")
_DISCORD_ID = re.compile(r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{22,27}$")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,.\s-]|\\[nrt])*")
_PEM_CHARS = 20_000  # the longest key body that is looked for
_TOKEN = re.compile(r"[A-Za-z0-9_.+/=-]{1,600}")
_WRAPPED_LINES = 6


def by_shape(text: str) -> Iterator[Span]:
    """Secrets told by how they begin."""
    for literal, kind, whole, loose in _RULES:
        for at in occurrences(text, literal):
            if at and text[at - 1].isascii() and text[at - 1].isalnum() and not _after_escape(text, at):
                continue
            match = whole.match(text, at)
            if match and not LINE_BREAK.match(text, match.end()):
                yield Span(at, match.end(), kind)
                continue
            end = _wrapped_end(text, at, loose, match.end() if match else 0)
            if end:
                yield Span(at, end, kind)
    if "AC" in text or "SK" in text:
        yield from (Span(*match.span(), "twilio") for match in _TWILIO.finditer(text))
    yield from _behind(_TELEGRAM_ID, _TELEGRAM, text, "telegram")
    yield from _behind(_DISCORD_ID, _DISCORD, text, "discord")
    yield from _private_keys(text)


def _behind(first: re.Pattern[str], rest: re.Pattern[str], text: str, kind: str) -> Iterator[Span]:
    for match in rest.finditer(text):
        head = first.search(text, max(0, match.start() - 30), match.start())
        if head:
            yield Span(head.start(), match.end(), kind)


def _private_keys(text: str) -> Iterator[Span]:
    done = 0
    for at in occurrences(text, "-----BEGIN "):
        begin = _PEM_BEGIN.match(text, at) if at >= done else None
        if begin:
            limit = begin.end() + _PEM_CHARS
            finish = _PEM_END.search(text, begin.end(), limit)
            body = _PEM_BODY.match(text, begin.end(), limit)
            done = finish.end() if finish else body.end() if body else begin.end()
            yield Span(at, done, "private_key")


def _after_escape(text: str, at: int) -> bool:
    # "\nghp_…" inside escaped text: the letter before belongs to the escape
    return at >= 2 and text[at - 2] == "\\" and text[at - 1] in "nrtbf"


def _wrapped_end(text: str, at: int, loose: re.Pattern[str], plain_end: int) -> int:
    """End of a token that a terminal wrapped over lines; 0 where there is none.

    Args:
        plain_end: where the token ends when it does not go on in the next line; 0 when it is too short for one line.
    """
    pieces: list[str] = []
    places: list[int] = []
    position = at
    for _ in range(_WRAPPED_LINES):
        run = _TOKEN.match(text, position)
        if not run:
            break
        pieces.append(run.group())
        places.append(position)
        if not LINE_BREAK.match(text, run.end()):
            break
        position = next_line(text, run.end())
    match = loose.match("".join(pieces))
    if not match:
        return plain_end
    left, end = match.end(), plain_end
    for number, (piece, start) in enumerate(zip(pieces, places, strict=True)):
        used = min(left, len(piece))
        if used <= 0:
            break
        stop = start + len(piece)
        goes_on_by_chance = (
            used < len(piece) or not looks_random(piece) or text[stop : stop + 1] in ("=", ":")
        )
        if number and plain_end and goes_on_by_chance:
            break
        end = max(end, start + used)
        left -= used
    return end
