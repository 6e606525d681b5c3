"""Texts come in, an in-memory index goes out that says how much of a query each text covers, word by word.

It is the full-text leg of recall: names in snake_case and camelCase, paths, codes, languages that are written without spaces.
A column of texts is cut into terms by polars, a single query by the same rules in plain Python; a test holds the two together.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

__all__ = [
    "LexicalIndex",
    "Query",
    "build_index",
    "carry_over",
    "parse_query",
    "split_terms",
    "stem_word",
    "terms_of",
]

# Scripts written without spaces (and Hangul, whose particles stick to the word) are cut into pairs of characters: Thai, Lao,
# Myanmar, Khmer, Kana, Han, Hangul. Ranges, not script names, so that both implementations mean the same.
_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
# A name as it is written: paths, hosts, versions, dotted and dashed names stay whole beside their parts. W: letter, mark,
# digit or underscore. In the Python form a text is first turned into classes: U upper, l lower, o other letter, m mark,
# n digit, _ itself, - a joining mark, space for the rest.
_NAME = r"[\p{L}\p{M}\p{N}_]+(?:[-./:\\@+=]+[\p{L}\p{M}\p{N}_]+)+|[\p{L}\p{M}\p{N}]*_[\p{L}\p{M}\p{N}_]*"
_NAME_CLASSES = re.compile(r"[Ulomn_]+(?:-+[Ulomn_]+)+|[Ulomn]*_[Ulomn_]*")
_PART = r"[\p{L}\p{M}]+|\p{N}+"
_PART_CLASSES = re.compile(r"[Ulom]+|n+")
_MIXED = r"\p{L}[\p{L}\p{M}]*\p{N}[\p{L}\p{M}\p{N}]*|\p{N}+\p{L}[\p{L}\p{M}\p{N}]*"  # sha256, 5xx, v2
_MIXED_CLASSES = re.compile(r"[Ulo][Ulom]*n[Ulomn]*|n+[Ulo][Ulomn]*")
_CAMEL_CLASSES = re.compile(r"(?<=[ln])(?=U)|(?<=U)(?=Ul)")
_RUN = re.compile(f"[{_PAIRED}]+")

# Light, and English first: plural, -ing, -ed; enough for a leg that backs a vector. In order; each applies to what the last left.
_STEMS = (
    (r"^(.{3,})ies$", "${1}y"),
    (r"^(.{2,}(?:s|x|z|ch|sh))es$", "${1}"),
    (r"^(.{2,}[^su])s$", "${1}"),
    (r"^(.{3,}?)(?:ing|ed)$", "${1}"),
    (r"^(.{3,})e$", "${1}"),
    (
        r"^([^\x00-\x7f]{3,})[^\x00-\x7f]{2}$",
        "${1}",
    ),  # other alphabets: the last two letters, where inflection sits
)
_STEMS_COMPILED = tuple((re.compile(found), left.replace("${1}", r"\1")) for found, left in _STEMS)

_STOP_WORDS = """
a an the and or but if of to in on at by for from with as is are was were be been it its this that these those do does did how
what why when where which who can could should would may might must will i we you they he she me my our your not no so than
then there here into out up over after before about again all any each has have had please
doe thi thes thos ther her wher befor hav pleas
"""  # the last line: what the stemmer makes of some of them
_STOP = frozenset(_STOP_WORDS.split())
_SYMBOL_WEIGHT = 1.0  # a name or code in the query counts this much of its rarity …
_WORD_WEIGHT = 0.5  # … and a plain word this much: words have synonyms, which the vector leg knows
_QUERY_TERMS = 200  # of a longer query the rest is left out


def terms_of(column: pl.Expr) -> pl.Expr:
    """An expression: a text column to lists of terms; names are prefixed `=`, so that parts and names never mix."""
    import polars as pl

    text = column.str.normalize("NFKC")
    split = (
        text.str.replace_all(r"([\p{Ll}\p{N}])(\p{Lu})", "${1} ${2}")
        .str.replace_all(r"(\p{Lu})(\p{Lu}\p{Ll})", "${1} ${2}")
        .str.to_lowercase()
    )
    lower = text.str.to_lowercase()
    runs = lower.str.extract_all(f"[{_PAIRED}]+").list.join(" ")
    spaced = lower.str.replace_all(f"[{_PAIRED}]+", " ")
    parts = split.str.replace_all(f"[{_PAIRED}]+", " ").str.extract_all(_PART).list.eval(_stem(pl.element()))
    names = spaced.str.extract_all(_NAME).list.eval("=" + pl.element().str.strip_chars("_"))
    mixed = spaced.str.extract_all(_MIXED).list.eval("=" + pl.element())
    pairs = [
        shifted.str.extract_all(f"[{_PAIRED}]{{2}}")
        for shifted in (runs, runs.str.replace_all(f"(^| )[{_PAIRED}]", "${1}"))
    ]
    singles = runs.str.extract_all(f"[{_PAIRED}]").list.eval("'" + pl.element())
    return pl.concat_list(parts, names, mixed, *pairs, singles)


def _stem(word: pl.Expr) -> pl.Expr:
    word = word.str.normalize("NFKD").str.replace_all(r"\p{M}", "")
    for found, left in _STEMS:
        word = word.str.replace(found, left)
    return word


def split_terms(text: str) -> list[str]:
    """The terms of one text, as `terms_of` gives them for a column; without the polars machinery it takes microseconds."""
    text = unicodedata.normalize("NFKC", text)
    pieces = _cut(_CAMEL_CLASSES, text)
    split = _RUN.sub(" ", " ".join(pieces).lower())
    lower = text.lower()
    spaced = _RUN.sub(" ", lower)
    classes = _classes(spaced)
    terms = [stem_word(split[m.start() : m.end()]) for m in _PART_CLASSES.finditer(_classes(split))]
    terms += ["=" + spaced[m.start() : m.end()].strip("_") for m in _NAME_CLASSES.finditer(classes)]
    terms += ["=" + spaced[m.start() : m.end()] for m in _MIXED_CLASSES.finditer(classes)]
    runs = _RUN.findall(lower)
    terms += [run[place : place + 2] for run in runs for place in range(0, len(run) - 1, 2)]
    terms += [run[place : place + 2] for run in runs for place in range(1, len(run) - 1, 2)]
    return terms + ["'" + character for run in runs for character in run]


def _cut(pattern: re.Pattern[str], text: str) -> list[str]:
    places = [match.start() for match in pattern.finditer(_classes(text))]
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


class _ClassTable(dict[int, str]):
    """Code point to class, filled as characters are met; `str.translate` reads it."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character in "-./:\\@+=":
            found = "-"
        elif character == "_":
            found = "_"
        elif category[0] == "L":
            found = {"Lu": "U", "Ll": "l"}.get(category, "o")
        else:
            found = {"M": "m", "N": "n"}.get(category[0], " ")
        self[code] = found
        return found


_CLASS_TABLE = _ClassTable()


def _classes(text: str) -> str:
    return text.translate(_CLASS_TABLE)


def stem_word(word: str) -> str:
    """A lower-case word without its English ending and without accents."""
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFKD", word) if unicodedata.category(c)[0] != "M")
    for found, left in _STEMS_COMPILED:
        word = found.sub(left, word, count=1)
    return word


@dataclass(frozen=True)
class Query:
    """A query cut into terms."""

    terms: tuple[str, ...]
    symbols: tuple[bool, ...]  # which of them are names or codes rather than words


def parse_query(text: str) -> Query:
    """Cut a query into the same terms that an index holds; stop words go, unless nothing else is left.

    >>> parse_query("why does HTTP 429 come").terms
    ('http', '429', 'com')
    """
    terms = tuple(term for term in dict.fromkeys(split_terms(text)) if term)
    kept = tuple(term for term in terms if _says_something(term)) or terms
    pairs = tuple(term for term in kept if not term.startswith("'"))
    kept = (pairs or kept)[:_QUERY_TERMS]  # single characters only where the query has no pair of them
    return Query(kept, tuple(_is_symbol(term) for term in kept))


def _says_something(term: str) -> bool:
    return term not in _STOP and (len(term) > 1 or not term.isascii())


def _is_symbol(term: str) -> bool:
    # Names and codes have no synonyms. One or two digits are as a rule an amount, not a code.
    return term.startswith("=") or (term.isdigit() and len(term) >= 3) or bool(_RUN.fullmatch(term))


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of a column of texts: for each term the rows that hold it."""

    rows: int
    hashes: NDArray[np.uint64]  # sorted, one a term
    starts: NDArray[np.int64]  # where a term's postings begin; one longer than `hashes`
    docs: NDArray[np.uint32]

    def coverage(
        self, query: Query, visible: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """How much of the query each row covers, 0 to 1, by the rarity of the words among the visible rows.

        Rarity is counted over `visible` alone, so that what a reader may not see changes nothing for them.

        Returns:
            two arrays over all rows: the share over all terms, and the share over names and codes alone (0 where the query
            has none).
        """
        import numpy as np

        total = np.zeros(self.rows, dtype=np.float32)
        symbol = np.zeros(self.rows, dtype=np.float32)
        seen = int(visible.sum()) if visible is not None else self.rows
        weights = [0.0, 0.0]
        for is_symbol, code in zip(query.symbols, map(_hash, query.terms), strict=True):
            docs = self._postings(code)
            if visible is not None and len(docs):
                docs = docs[visible[docs]]
            # A word that no text holds is as rare as one that a single text holds.
            rarity = float(np.log1p(seen / (max(len(docs), 1) + 0.5)))
            weight = rarity * (_SYMBOL_WEIGHT if is_symbol else _WORD_WEIGHT)
            weights[0] += weight
            total[docs] += weight
            if is_symbol:
                weights[1] += weight
                symbol[docs] += weight
        if weights[0]:
            total /= weights[0]
        if weights[1]:
            symbol /= weights[1]
        return total, symbol

    def _postings(self, code: int) -> NDArray[np.uint32]:
        import numpy as np

        place = int(np.searchsorted(self.hashes, np.uint64(code)))
        if place == len(self.hashes) or self.hashes[place] != code:
            return self.docs[:0]
        return self.docs[self.starts[place] : self.starts[place + 1]]


def build_index(texts: pl.Series) -> LexicalIndex:
    """Index a column of texts.

    >>> import polars as pl
    >>> build_index(pl.Series(["HTTP 429", "retry"])).coverage(parse_query("429"))[0].tolist()
    [1.0, 0.0]
    """
    import polars as pl

    pairs = (
        pl.DataFrame({"text": texts})
        .lazy()
        .with_row_index("row")
        .select(pl.col("row"), terms_of(pl.col("text")).alias("term"))
        .explode("term")
        .filter(pl.col("term").is_not_null())
        .unique()
        .collect()
    )
    terms = pairs["term"].unique()
    codes = pl.DataFrame({"term": terms, "code": pl.Series([_hash(term) for term in terms], dtype=pl.UInt64)})
    pairs = pairs.join(codes, on="term").select("row", "code").sort("code", "row")
    return _of_postings(pairs["code"].to_numpy(), pairs["row"].to_numpy(), len(texts))


def carry_over(old: LexicalIndex, places: NDArray[np.int64], texts: pl.Series) -> LexicalIndex:
    """The index of a column most of whose texts an older index knows; only the others are cut.

    Args:
        old: index of the column as it was.
        places: for each row of `texts` its row in `old`, or -1 for a new text.
        texts: the column now.
    """
    import numpy as np

    row_now = np.full(old.rows, -1, dtype=np.int64)
    known = np.flatnonzero(places >= 0)
    row_now[places[known]] = known
    fresh = np.flatnonzero(places < 0)
    added = build_index(texts.gather(fresh))
    rows = np.concatenate([row_now[old.docs], fresh[added.docs]])
    codes = np.concatenate([np.repeat(index.hashes, np.diff(index.starts)) for index in (old, added)])
    stays = rows >= 0
    rows, codes = rows[stays], codes[stays]
    order = np.lexsort((rows, codes))
    return _of_postings(codes[order], rows[order], len(texts))


def _of_postings(codes: NDArray[np.uint64], rows: NDArray[np.int64], count: int) -> LexicalIndex:
    import numpy as np

    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, np.int64)
    return LexicalIndex(
        count, codes[starts], np.r_[starts, len(codes)].astype(np.int64), rows.astype(np.uint32)
    )


def _hash(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "big")
