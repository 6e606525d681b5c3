"""Texts come in, an in-memory index goes out that says how much of a query each text covers, word by word.

It is the full-text leg of recall: names in snake_case and camelCase, paths, codes, languages that are written without spaces.
Cutting into terms is done by polars for a whole column at once; a query goes through the same expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["LexicalIndex", "Query", "build_index", "parse_query", "terms_of"]

# Scripts written without spaces (and Hangul, whose particles stick to the word) are cut into pairs of characters.
_PAIRED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# A name as it is written: paths, hosts, versions, dotted and dashed names stay whole beside their parts.
_NAME = r"[\p{L}\p{M}\p{N}_]+(?:[-./:\\@+=]+[\p{L}\p{M}\p{N}_]+)+|[\p{L}\p{M}\p{N}]*_[\p{L}\p{M}\p{N}_]*"
_SPACELESS = (
    ("\u0e00", "\u0eff"),
    ("\u1000", "\u11ff"),
    ("\u1780", "\u17ff"),
    ("\u3040", "\uffdc"),
    ("\U00020000", "\U0003ffff"),
)
_PART = r"[\p{L}\p{M}]+|\p{N}+"
_MIXED = r"\p{L}[\p{L}\p{M}]*\p{N}[\p{L}\p{M}\p{N}]*|\p{N}+\p{L}[\p{L}\p{M}\p{N}]*"  # sha256, 5xx, v2

_STOP_WORDS = """
a an the and or but if of to in on at by for from with as is are was were be been it its this that these those do does did how
what why when where which who can could should would may might must will i we you they he she me my our your not no so than
then there here into out up over after before about again all any each has have had please
doe thi thes thos ther her wher befor hav pleas
"""  # the last line: what the stemmer makes of some of them
_STOP = frozenset(_STOP_WORDS.split())
_SYMBOL_WEIGHT = 1.0  # a name or code in the query counts this much of its rarity …
_WORD_WEIGHT = 0.5  # … and a plain word this much: words have synonyms, which the vector leg knows


def terms_of(column: pl.Expr) -> pl.Expr:
    """An expression: a text column to lists of terms; names are prefixed `=`, so that parts and names never mix."""
    import polars as pl

    text = column.str.normalize("NFKC")
    split = (
        text.str.replace_all(r"([\p{Ll}\p{N}])(\p{Lu})", "${1} ${2}")
        .str.replace_all(r"(\p{Lu}+)(\p{Lu}\p{Ll})", "${1} ${2}")
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
    # Light and English: plural, -ing, -ed; enough for a leg that backs a vector.
    return (
        word.str.normalize("NFKD")
        .str.replace_all(r"\p{M}", "")
        .str.replace(r"^(.{3,})ies$", "${1}y")
        .str.replace(r"^(.{2,}(?:s|x|z|ch|sh))es$", "${1}")
        .str.replace(r"^(.{2,}[^su])s$", "${1}")
        .str.replace(r"^(.{3,}?)(?:ing|ed)$", "${1}")
        .str.replace(r"^(.{3,})e$", "${1}")
    )


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
    import polars as pl

    found = pl.DataFrame({"text": [text[:4_000]]}).select(terms_of(pl.col("text"))).to_series()[0].to_list()
    terms = tuple(dict.fromkeys(term for term in found if term))
    kept = tuple(term for term in terms if _says_something(term)) or terms
    pairs = tuple(term for term in kept if not term.startswith("'"))
    kept = pairs or kept  # single characters only where the query has no pair of them
    return Query(kept, tuple(_is_symbol(term) for term in kept))


def _says_something(term: str) -> bool:
    return term not in _STOP and (len(term) > 1 or not term.isascii())


def _is_symbol(term: str) -> bool:
    # Names and codes have no synonyms. One or two digits are as a rule an amount, not a code.
    return term.startswith("=") or (term.isdigit() and len(term) >= 3) or _is_pair(term)


def _is_pair(term: str) -> bool:
    return (
        len(term) == 2 and not term.isascii() and not any(c.isascii() for c in term) and _spaceless(term[0])
    )


def _spaceless(character: str) -> bool:
    return any(low <= character <= high for low, high in _SPACELESS)


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
        for is_symbol, code in zip(query.symbols, _hash(query.terms), strict=True):
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
    import numpy as np
    import polars as pl

    pairs = (
        pl.DataFrame({"text": texts})
        .lazy()
        .with_row_index("row")
        .select(pl.col("row"), terms_of(pl.col("text")).alias("term"))
        .explode("term")
        .filter(pl.col("term").is_not_null())
        .select("row", pl.col("term").hash(7).alias("code"))
        .unique()
        .sort("code", "row")
        .collect()
    )
    codes = pairs["code"].to_numpy()
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, np.int64)
    return LexicalIndex(
        rows=len(texts),
        hashes=codes[starts],
        starts=np.r_[starts, len(codes)].astype(np.int64),
        docs=pairs["row"].to_numpy().astype(np.uint32),
    )


def _hash(terms: tuple[str, ...]) -> list[int]:
    import polars as pl

    return pl.Series("term", terms, dtype=pl.String).hash(7).to_list()
