"""Which messages say the same: comes in a batch of messages, goes out a signature id for each.

First each message is masked alone (`signatures`), then templates that differ at one place only are compared: where the
values at that place look like values, they are one template. The second pass looks at the set of templates, never at
their order or number, so the same lines give the same groups however they come.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sitoolkit.logs.lines import begins_event, parse_line
from sitoolkit.signatures import WILD, is_technology, mask_messages, signature_id

__all__ = ["group_messages", "group_templates", "merge_templates"]

_ROUNDS = 4  # a round opens at most a few places of a template; loghub's systems settle after two
_FEW, _MANY = 4, 12  # distinct plain words that make a place variable: after a slot word, and anywhere
_SLOT_WORDS_TEXT = """
    address agent app application bucket by class client component container database device domain driver
    file filter for from group host id image interface job key module name named node of package path plugin
    process queue server service session state status table task to topic type user via volume with
"""
_SLOT_WORDS = frozenset(_SLOT_WORDS_TEXT.split())
_STOP_WORDS_TEXT = """
    a already an and are as at be been before begin but by can cannot closed closing connected could did
    disabled disconnected do does done down enabled end exceeded expired failed failing for from had has
    have if in into invalid is it its may missing must no none not of off on opened opening or paused
    resumed shall should so start started stop stopped succeeded success than that the then there this to
    too unable unknown up was were when will with without would yet
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_FAULT = re.compile(r"(?:Exception|Error|Failure|Warning|Fault|Timeout)\W*$")
_HARD = re.compile(r"\d|\w[./:@+~$]+\w|[+*#$~]|^[A-Za-z]$|[-+]$")  # shapes that plain words do not have
_SOFT = re.compile(r"\w[-_]\w|[a-z][A-Z]")  # joints and humps: names, but also read-only and NewYork
_ACRONYM = re.compile(r"[A-Z]{2,5}")
_NUMBERED = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]+\d+[A-Za-z]*(?![0-9A-Za-z])")
_HEAD_STARTS = frozenset("0123456789[ -(JFMASOND")  # how the times begin that a line of a log may begin with
_EDGE = "\"'()[]{}<>,;:.!?"


def _is_state(core: str) -> bool:
    """RUNNING, FAIL_TASK_CLEANUP, android.intent.action.SCREEN_ON: the program's own words."""
    last = core.rpartition(".")[2]
    return len(last) > 1 and last.isupper() and not any(letter.isdigit() for letter in last)


def _shape(token: str) -> str:
    """`value`, `name`, `word` or `fixed`: states in capitals, functions, exceptions and keys never vary."""
    core = token.strip(_EDGE)
    if token.strip("\"'()[]{},;:.!?") == WILD or core == "*":
        return "value"
    if not core or "=" in token or token.endswith(("()", "():")) or _FAULT.search(core):
        return "fixed"
    if ":<" in token or _is_state(core):
        return "fixed"
    if WILD in token:
        return "value"
    if is_technology(core):
        return "word" if core.islower() else "fixed"
    if _HARD.search(core):
        return "value"
    if _SOFT.search(core):
        return "name"
    return "word" if core.islower() else "fixed"


def _affixes(token: str) -> tuple[str, str]:
    core = token.strip(_EDGE)
    if not core:
        return token, ""
    start = token.index(core)
    return token[:start], token[start + len(core) :]


def _variable(values: set[str], before: str, known: set[str]) -> set[str]:
    """Which of the tokens seen at one place are values of it; fewer than two when the place is not variable."""
    kinds: dict[str, set[str]] = {"value": set(), "name": set(), "word": set(), "fixed": set()}
    for value in values:
        if value.strip(_EDGE).lower() not in _STOP_WORDS:
            kinds[_shape(value)].add(value)
    hard, names, words = kinds["value"], kinds["name"], kinds["word"]
    everything = hard | names | words
    if len(everything) >= _MANY:
        return everything
    if before.endswith("="):  # `reason = Timeout`, `reason = Refused`: what a key holds
        return everything
    if before.strip(_EDGE).lower() in _SLOT_WORDS:
        wild = any(WILD in value for value in hard)
        if (
            hard or names
        ):  # beside names, short capitals are a name too: client WindowsUpdateAgent, client SPP
            everything |= {value for value in kinds["fixed"] if _ACRONYM.fullmatch(value.strip(_EDGE))}
            names |= everything & kinds["fixed"]
        if len(words) >= _FEW or (words and (wild or {value.strip(_EDGE) for value in words} <= known)):
            return everything
        return hard | names
    return hard | names if len(names) >= _FEW else hard


def merge_templates(templates: Iterable[str]) -> dict[str, str]:
    """For each template the one that stands for its group.

    >>> merge_templates(["link eth0 down", "link eth1 down"])["link eth0 down"]
    'link <*> down'

    Args:
        templates: as `mask_messages` gives them; their order and number change nothing.
    """
    final = {template: template for template in templates}
    final = _merge_numbered(final)
    for _ in range(_ROUNDS):
        opened = _open_places(set(final.values()))
        if not opened:
            break
        final = {template: opened.get(now, now) for template, now in final.items()}
    return final


def _merge_numbered(final: dict[str, str]) -> dict[str, str]:
    """Templates that differ only in the numbers of names, `CPU0 eth1` and `CPU1 eth0`, are one."""

    def stem(found: re.Match[str]) -> str:
        return found.group() if is_technology(found.group()) else WILD

    alike: defaultdict[str, list[str]] = defaultdict(list)
    for template in final:
        alike[
            _NUMBERED.sub(
                lambda found: re.sub(r"\d+", "#", found.group()) if stem(found) == WILD else found.group(),
                template,
            )
        ].append(template)
    merged = dict(final)
    for members in alike.values():
        if len(members) > 1:
            opened = _NUMBERED.sub(stem, members[0])
            merged.update(dict.fromkeys(members, opened))
    return merged


def _open_places(templates: set[str]) -> dict[str, str]:
    split = {template: tuple(template.split(" ")) for template in templates}
    by_length: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
    for tokens in split.values():
        by_length[len(tokens)].append(tokens)
    places: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    weak: list[tuple[int, list[tuple[str, ...]]]] = []
    known: set[str] = set()
    for length, rows in by_length.items():
        if len(rows) < 2:
            continue
        # A row without one of its tokens is known by a sum of hashes, so that long rows cost no more than their length.
        sums = [sum(map(hash, enumerate(row))) for row in rows]
        for place in range(1, length):
            holes: defaultdict[tuple[int, str, str], list[tuple[str, ...]]] = defaultdict(list)
            for row, whole in zip(rows, sums, strict=True):
                holes[whole - hash((place, row[place])), *_affixes(row[place])].append(row)
            for members in holes.values():
                if len(members) < 2 or (place + 1 < length and members[0][place + 1].startswith("=")):
                    continue
                before = members[0][place - 1]
                values = _variable({row[place] for row in members}, before, set())
                if len(values) < 2:
                    weak.append((place, members))
                    continue
                known.update(value.strip(_EDGE) for value in values if WILD not in value)
                for row in members:
                    if row[place] in values:
                        places[row].add(place)
    for place, members in weak:
        values = _variable({row[place] for row in members}, members[0][place - 1], known)
        if len(values) > 1:
            for row in members:
                if row[place] in values:
                    places[row].add(place)
    opened = {}
    for template, tokens in split.items():
        if tokens in places:
            cells = list(tokens)
            for place in places[tokens]:
                prefix, suffix = _affixes(cells[place])
                cells[place] = (
                    prefix + WILD + suffix if WILD not in cells[place] or prefix or suffix else cells[place]
                )
            opened[template] = " ".join(cells)
    return opened


def _without_heads(messages: Iterable[str]) -> Iterator[str]:
    """Whole lines of a log lose their time, level and name; a message that begins otherwise stays as it is."""
    for message in messages:
        first = message[:1]
        if (first in _HEAD_STARTS or first == "{" or ".log" in message[:24]) and begins_event(message):
            yield parse_line(message).message
        else:
            yield message


def group_templates(messages: Iterable[str]) -> list[str]:
    """The template of each message after both passes."""
    masked = mask_messages(_without_heads(messages))
    merged = merge_templates(set(masked))
    return [merged[template] for template in masked]


def group_messages(messages: Iterable[str]) -> list[str]:
    """A signature id for each message; messages that differ in values only have the same id.

    >>> ids = group_messages(["user a not found in 12ms", "user b not found in 1.2s", "disk full"])
    >>> ids[0] == ids[1], ids[0] == ids[2]
    (True, False)
    """
    ids: dict[str, str] = {}
    found = []
    for template in group_templates(messages):
        identifier = ids.get(template)
        if identifier is None:
            identifier = ids[template] = signature_id(template)
        found.append(identifier)
    return found
