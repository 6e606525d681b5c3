"""Cosines, word coverage and row properties come in; scores, gates, collapsed duplicates and places in the prompt go out.

Pure functions over numpy arrays: no store, no model, no clock. docs/explanation/recall.md explains each number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sitoolkit.lexical import stem_word as _stem_word
from sitoolkit.records import Category, Origin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "LASTING_ORIGINS",
    "SLOT_ORDER",
    "Relevance",
    "collapse",
    "decay_factor",
    "decay_factors",
    "fuse",
    "gate",
    "latin_share",
    "literals",
    "says_the_same",
    "take_places",
]

# The order in which places are reserved: what must be done, what went wrong, what holds, how it is done, what was done.
SLOT_ORDER: tuple[Category, ...] = (
    Category.USAGE_GUIDE,
    Category.REFLECTION,
    Category.LEARNED_FACT,
    Category.EXPERT_KNOWLEDGE,
    Category.OPERATIONAL_EVENT,
)
LASTING_ORIGINS = (Origin.DIRECTIVE, Origin.USER_STATED)  # what a person laid down does not fade
RESERVED_ROUNDS = 2  # so many places a slot are reserved, a round at a time; the rest goes by score
NEAR_BEST = 0.03  # relevances this close count as equal when the first place is given

SYMBOL_BONUS = 0.25  # on top, for covering all names and codes of the query
IMPUTED_COSINE = 0.65  # of a row without a vector that covers the whole query: the median of exact-name hits
LEXICAL_FLOOR = 0.5  # covering half of the query by rarity passes the gate on words alone
ITEM_SHARE = 0.75  # a row passes from this share of the query's floor on …
BEST_SHARE = 1 / 3  # … and from this share of the best row's cosine on


@dataclass(frozen=True)
class Relevance:
    """Relevance of rows to a query, 0 to 1, and the legs that it came from."""

    total: NDArray[np.float32]
    cosine: NDArray[np.float32]  # 0 where a row has no vector
    words: NDArray[np.float32]  # share of the query's terms, by rarity
    symbols: NDArray[np.float32]  # share of its names and codes
    trust: float  # how far the vector leg is trusted for this query


def latin_share(text: str) -> float:
    """Share of Latin letters among the letters of a text; 1 where it has no letters.

    >>> latin_share("restart 服务器")
    0.7
    """
    letters = [character for character in text if character.isalpha()]
    return sum(character < "\u0250" for character in letters) / len(letters) if letters else 1.0


def fuse(
    cosine: NDArray[np.float32],
    has_vector: NDArray[np.bool_],
    words: NDArray[np.float32],
    symbols: NDArray[np.float32],
    *,
    lexical_weight: float,
    trust: float = 1.0,
) -> Relevance:
    """Fuse the two legs so that neither is thrown away.

    The vector leg leads where its vectors are good: coverage enters cubed, so that sharing a few words with the query,
    as any near miss does, moves little, while covering all of it does. Where the full-text leg leads (weight 0.5 and above,
    as for feature hashing) it enters as it is. A row without a vector is judged by its words alone.

    Args:
        cosine: cosine of each row to the query.
        has_vector: rows whose cosine means something.
        words: coverage of the query's terms, 0 to 1.
        symbols: coverage of the query's names and codes, 0 to 1.
        lexical_weight: weight of the full-text leg; the vector leg has the rest.
        trust: 1 for a query in a script that the embedder knows, 0 for one in others.
    """
    import numpy as np

    weight = lexical_weight * trust + (1.0 - trust)
    covered = words if weight >= 0.5 else words**3
    vector = np.where(has_vector, np.maximum(cosine, 0.0), IMPUTED_COSINE * words * words)
    total = (1.0 - weight) * vector + weight * covered
    if symbols.any():  # scaled, so that the best of several rows with all the names still leads
        total = (total + SYMBOL_BONUS * symbols * symbols) / (1.0 + SYMBOL_BONUS)
    return Relevance(
        np.clip(total, 0.0, 1.0).astype(np.float32),
        np.where(has_vector, cosine, 0.0).astype(np.float32),
        words,
        symbols,
        trust,
    )


def gate(
    relevance: Relevance, *, floor: float, has_query_vector: bool = True
) -> tuple[NDArray[np.bool_], str | None]:
    """Which rows are related to the query at all, and why none is.

    A query passes when its best row reaches the embedder's floor, or when some row covers half of its words (by rarity) or
    of its names and codes. Then a row passes with a share of that floor and of the best row's cosine, or on its words.
    """
    import numpy as np

    by_words = (relevance.words >= LEXICAL_FLOOR) | (relevance.symbols >= LEXICAL_FLOOR)
    cosine = relevance.cosine
    best = float(cosine.max()) if len(cosine) else 0.0
    # In a script that the embedder does not know all texts lie close together: its word counts for nothing there.
    by_vector = has_query_vector and relevance.trust >= 0.5 and best >= floor
    if by_vector:
        return by_words | (cosine >= max(ITEM_SHARE * floor, BEST_SHARE * best)), None
    if by_words.any():
        return by_words, None
    none = np.zeros(len(cosine), dtype=bool)
    if not len(cosine):
        return none, "nothing to search in these scopes"
    return none, f"nothing related: best cosine {best:.2f}, floor {floor:.2f}; best word coverage " + (
        f"{float(relevance.words.max()):.2f}, floor {LEXICAL_FLOOR:.2f}"
    )


def decay_factor(
    category: str, origin: str, age_days: float, half_life_days: Mapping[str, float], floor: float
) -> float:
    """What is left of a memory's weight after so many days without use: a true half-life with a floor that is reached.

    >>> decay_factor("operational_event", "observed", 60, {"operational_event": 60.0}, 0.1)
    0.5
    >>> decay_factor("usage_guide", "directive", 10_000, {}, 0.1)
    1.0

    Args:
        category: categories without a half-life do not decay.
        origin: directives and what a user stated do not decay either.
        age_days: days since last use; below 0 counts as 0.
        half_life_days: days by category, from `DecaySettings`.
        floor: what always remains, from `DecaySettings`.
    """
    half_life = half_life_days.get(category)
    if not half_life or origin in LASTING_ORIGINS:
        return 1.0
    return float(max(floor, 2.0 ** (-max(0.0, age_days) / half_life)))


def decay_factors(
    age_days: NDArray[np.float64],
    slots: NDArray[np.uint32],
    exempt: NDArray[np.bool_],
    half_life_days: Mapping[str, float],
    floor: float,
) -> NDArray[np.float32]:
    """`decay_factor` for many rows at once; `slots` are places in SLOT_ORDER, `exempt` rows whose origin does not decay."""
    import numpy as np

    half_lives = np.array([half_life_days.get(slot) or np.inf for slot in SLOT_ORDER])[slots]
    factors = np.maximum(floor, np.exp2(-np.maximum(age_days, 0.0) / half_lives))
    return np.where(exempt | np.isinf(half_lives), 1.0, factors).astype(np.float32)


_LITERAL = re.compile(r"\w*\d\w*|\w+_\w+|[\w.-]*[/\\][\w./\\-]+", re.UNICODE)
_DENIAL = re.compile(r"\b(?:not|never|no|cannot|without|avoid)\b|n't\b", re.IGNORECASE)
_FILLER_WORDS = """
a an the and or but if of to in on at by for from with as is are was be been it its this that these those then than so you we i
they your our must should shall can could may might will would do does did always please use using make sure need needs when
whenever before after not never no dont don t cannot without avoid
"""
_FILLER = frozenset(_FILLER_WORDS.split())


@functools.lru_cache(maxsize=8192)
def literals(text: str) -> frozenset[str]:
    """What may not differ between two texts that say the same: numbers, names, paths, and whether they deny."""
    found = {literal.lower() for literal in _LITERAL.findall(text)}
    return frozenset(found | {"¬"} if _DENIAL.search(text) else found)


@functools.lru_cache(maxsize=8192)
def _content(text: str) -> tuple[str, ...]:
    return tuple(_stem_word(word) for word in re.findall(r"\w+", text.lower()) if word not in _FILLER)


def says_the_same(kept: str, dropped: str) -> bool:
    """Whether `kept` can stand for `dropped`, given that the two lie close together.

    Numbers, names, paths and denials have to agree. Then `dropped` may have no word that `kept` lacks (inflected and moved ones
    count as there); or, where the sentence is built in another order, less than a quarter of such words. Other words in the
    same places are a form filled in differently, not a repeat.

    >>> says_the_same("take a dump before you roll back a migration", "before rolling back the migration, take a dump")
    True
    >>> says_the_same("rotate the keys of staging", "rotate the keys of production")
    False
    """
    if literals(kept) != literals(dropped):
        return False
    first, second = _content(kept), _content(dropped)
    there = set(first)
    foreign = sum(word not in there for word in second)
    if not foreign:
        return True
    if foreign >= len(second) / 4:
        return False
    shared = there & set(second)
    return [word for word in first if word in shared] != [word for word in second if word in shared]


def collapse(
    vectors: NDArray[np.float32],
    has_vector: NDArray[np.bool_],
    texts: Sequence[str],
    categories: Sequence[str],
    threshold: float,
) -> dict[int, int]:
    """Near-duplicates among candidates in order of preference: place of the repeat to the place that stands for it.

    Two memories of one category are near-duplicates when their cosine reaches the embedder's threshold and their numbers,
    names and denials agree; `port 80` and `port 81` never are. Equal texts are, whatever their category.
    """
    repeats: dict[int, int] = {}
    by_text: dict[str, int] = {}
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        folded = " ".join(text.casefold().split())
        if folded in by_text:
            repeats[place] = by_text[folded]
            continue
        by_text[folded] = place
        if has_vector[place]:
            groups.setdefault(categories[place], []).append(place)
    for places in groups.values():
        # A slot at a time: the products stay so small that no thread pool is woken for them.
        close = vectors[places] @ vectors[places].T >= threshold
        kept: list[int] = []
        for row, place in enumerate(places):
            stands = next(
                (
                    other
                    for other in kept
                    if close[row, other] and says_the_same(texts[places[other]], texts[place])
                ),
                None,
            )
            if stands is None:
                kept.append(row)
            else:
                repeats[place] = places[stands]
    return repeats


def take_places(
    categories: Sequence[str], relevance: Sequence[float], score: Sequence[float], k: int
) -> list[tuple[int, str]]:
    """Who gets the k places, reserved ones first; each with how it got it.

    The first place goes to the most relevant row (of rows within 0.03 of it, to the one with the best score). Then each slot
    that is not served yet gets a place in the order directive, lesson, fact, pattern, precedent; then each a second one; what
    is left goes by score. So k = 1 gets the best; k = 2 the best and a directive (a lesson if the best is a directive);
    k = 3 one slot more; k = 5 one of each; k = 13 two of each and three by score. A slot with no candidate gives its place on.

    >>> take_places(["reflection", "usage_guide"], [0.9, 0.5], [0.45, 0.5], 1)
    [(0, 'most relevant')]
    """
    order = sorted(range(len(categories)), key=lambda place: (-score[place], -relevance[place], place))
    if not order or k < 1:
        return []
    best = max(relevance)
    first = next(place for place in order if relevance[place] >= best - NEAR_BEST)
    taken: list[tuple[int, str]] = [(first, "most relevant")]
    queues = {slot: [p for p in order if categories[p] == slot and p != first] for slot in SLOT_ORDER}
    served = {categories[first]: 1}
    for turn in range(1, RESERVED_ROUNDS + 1):
        for slot in SLOT_ORDER:
            if len(taken) == k:
                return taken
            if served.get(slot, 0) < turn and queues[slot]:
                taken.append((queues[slot].pop(0), f"{slot.slot_name} place {turn}"))
                served[slot] = served.get(slot, 0) + 1
    gone = {place for place, _ in taken}
    taken += [(place, "by score") for place in order if place not in gone][: k - len(taken)]
    return taken
