"""A question and a reader come in, the memories that reach the prompt go out, with the reason for each; the journal keeps both.

Only what the reader's scopes allow, what is active and not expired is searched. The order of work: query, view, two legs,
gate, score, collapse, places, budget, block, journal. The pure parts lie in `ranking`, `lexical`, `prompt_block`, `tokens`.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sitoolkit import ranking
from sitoolkit.errors import ModelError, NotFoundError, ParameterError
from sitoolkit.fragments import load_fragments
from sitoolkit.lexical import LexicalIndex, Query, build_index, carry_over, parse_query
from sitoolkit.prompt_block import Shown, clean, fit, inject, render, strip_recalled
from sitoolkit.records import Category, Origin, Reader, Recall, RecallItem, Scope, digest, iso, parse_time
from sitoolkit.tokens import estimate_tokens

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from sitoolkit.models.embedders import Embedder
    from sitoolkit.stores.journal import Entry
    from sitoolkit.workspace import Workspace

__all__ = ["explain", "inject", "recall", "strip_recalled", "who_saw"]

log = logging.getLogger(__name__)

_QUERY_CHARS = 4_000  # of a longer question the end is searched: there it asks
_POOL = 600  # rows that are scored exactly; chosen by relevance and the weights that do not age
_PER_SLOT = 8  # candidates of a slot beyond k that may stand in for repeats and for what does not fit
_VIEWS = 4  # reader views kept a store
_SINGLE = 4_000_000  # numbers up to which one thread multiplies: on a busy machine BLAS waits 20 ms for its second one
_PROJECTED = 64  # numbers of a projected vector …
_EXACT = 20_000  # … and rows nearest by them that are compared in full
_FAR = 2**62  # microseconds: never expires


# ---------------------------------------------------------------- what is searched


@dataclass(frozen=True, eq=False)
class _Table:
    """The active rows of one version of the memory table, as arrays."""

    frame: pl.DataFrame
    matrix: NDArray[np.float32]
    has_vector: NDArray[np.bool_]
    category: NDArray[np.uint32]  # place in ranking.SLOT_ORDER
    scope: NDArray[np.uint32]  # place in `scopes`
    scopes: tuple[str, ...]
    expires_us: NDArray[np.int64]
    used_us: NDArray[np.int64]  # last seen, else written
    static: NDArray[np.float32]  # base weight x confidence
    exempt: NDArray[np.bool_]  # by origin: does not decay

    @functools.cached_property
    def ids(self) -> list[str]:
        """The ids, in the order of the rows."""
        return self.frame["id"].to_list()

    @functools.cached_property
    def shown(self) -> pl.DataFrame:
        """The columns of a candidate, in the order that it takes them."""
        return self.frame.select("id", "scope", "origin", "confidence", "base_weight", "text", "evidence")

    @functools.cached_property
    def texts(self) -> pl.Series:
        """What the full-text leg reads of each row: text and tags."""
        import polars as pl

        joined = pl.concat_str(
            [pl.col("text"), pl.col("tags").list.join(" ").fill_null("")], separator=" \n "
        )
        return self.frame.select(joined.alias("text")).to_series()

    @functools.cached_property
    def words(self) -> LexicalIndex:
        """Full-text index over texts and tags; made at first use."""
        return build_index(self.texts)

    def take_words_from(self, older: _Table) -> None:
        """Carry the index of an older version of the table over: a write of a few rows must not cost the whole."""
        import polars as pl

        if "words" not in older.__dict__:
            return
        was = pl.DataFrame({"id": older.frame["id"], "text": older.texts}).with_row_index("place")
        now = pl.DataFrame({"id": self.frame["id"], "text": self.texts})
        places = now.join(was, on=["id", "text"], how="left", maintain_order="left")["place"]
        if places.null_count() <= self.frame.height // 2:
            carried = carry_over(older.words, places.cast(pl.Int64).fill_null(-1).to_numpy(), self.texts)
            self.__dict__["words"] = carried


@dataclass(frozen=True, eq=False)
class _View:
    """The rows of a table that one set of scopes may see, and what is compared with a query's vector."""

    rows: NDArray[np.int64]
    mask: NDArray[np.bool_] | None  # over the whole table; None: all of it
    matrix: (
        NDArray[np.float32] | None
    )  # the rows' vectors; None: too many, their projections are compared first
    axes: NDArray[np.float32] | None = None  # (dim, _PROJECTED)
    projected: NDArray[np.float32] | None = None

    def cosines(self, table: _Table, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosine of each row to a query; above `recall.matrix_rows` exact for the nearest alone, near enough for the rest."""
        import numpy as np

        if self.matrix is not None:
            if self.matrix.size <= _SINGLE:
                found: NDArray[np.float32] = np.einsum("ij,j->i", self.matrix, vector)
                return found
            return self.matrix @ vector
        assert self.axes is not None and self.projected is not None
        cosine: NDArray[np.float32] = self.projected @ (vector @ self.axes)
        near = np.argpartition(-cosine, _EXACT)[:_EXACT] if len(cosine) > _EXACT else np.arange(len(cosine))
        cosine[near] = table.matrix[self.rows[near]] @ vector
        return cosine


class _Cache:
    """What is kept for one store: the arrays of its newest version and some readers' views of it."""

    def __init__(self) -> None:
        self.snapshot: Any = None
        self.table: _Table | None = None
        self.views: OrderedDict[frozenset[str], _View] = OrderedDict()

    def open(self, snapshot: Any) -> _Table:
        # Compared by identity: a store gives the same object until a row changes, and a number may come again after a rebuild.
        if self.table is None or self.snapshot is not snapshot:
            older = self.table
            self.table = _tabulate(snapshot.frame, snapshot.matrix, snapshot.has_vector)
            self.snapshot = snapshot
            self.views.clear()
            if older is not None:
                self.table.take_words_from(older)
        return self.table

    def view(self, table: _Table, scopes: frozenset[str], most: int) -> _View:
        found = self.views.get(scopes)
        if found is None:
            found = self.views[scopes] = _view(table, scopes, most)
            while len(self.views) > _VIEWS:
                self.views.popitem(last=False)
        self.views.move_to_end(scopes)
        return found


_CACHES: weakref.WeakKeyDictionary[Any, _Cache] = weakref.WeakKeyDictionary()
_QUERY_VECTORS: OrderedDict[tuple[str, str, str], NDArray[np.float32]] = OrderedDict()


def _tabulate(frame: pl.DataFrame, matrix: NDArray[np.float32], has_vector: NDArray[np.bool_]) -> _Table:
    import numpy as np
    import polars as pl

    scopes = tuple(sorted(frame["scope"].unique().to_list()))

    def microseconds(column: str) -> pl.Expr:
        return pl.col(column).dt.timestamp("us")

    numbers = frame.select(
        pl.col("category").cast(pl.String).cast(pl.Enum([str(c) for c in ranking.SLOT_ORDER])).to_physical(),
        pl.col("scope").cast(pl.Enum(scopes or ("global",))).to_physical(),
        microseconds("expires_at").fill_null(_FAR).alias("expires"),
        pl.coalesce(microseconds("last_seen"), microseconds("created_at"), pl.lit(0)).alias("used"),
        (pl.col("base_weight") * pl.col("confidence")).cast(pl.Float32).alias("static"),
        pl.col("origin").cast(pl.String).is_in([str(o) for o in ranking.LASTING_ORIGINS]).alias("exempt"),
    )
    return _Table(
        frame=frame,
        matrix=matrix,
        has_vector=has_vector,
        category=numbers["category"].to_numpy().astype(np.uint32),
        scope=numbers["scope"].to_numpy().astype(np.uint32),
        scopes=scopes,
        expires_us=numbers["expires"].to_numpy(),
        used_us=numbers["used"].to_numpy(),
        static=numbers["static"].to_numpy(),
        exempt=numbers["exempt"].to_numpy(),
    )


def _view(table: _Table, scopes: frozenset[str], most: int) -> _View:
    import numpy as np

    codes = [code for code, scope in enumerate(table.scopes) if scope in scopes]
    everything = len(codes) == len(table.scopes)
    mask = None if everything else np.isin(table.scope, np.array(codes, dtype=np.uint32))
    rows = np.arange(len(table.scope)) if mask is None else np.flatnonzero(mask)
    if len(rows) <= most:
        return _View(rows, mask, table.matrix if everything else table.matrix[rows])
    # The axes along which the vectors differ most, from a sample; 64 of them tell 20,000 of a million apart well.
    sample = table.matrix[rows[:: max(1, len(rows) // 20_000)]]
    _, axes = np.linalg.eigh(sample.T @ sample)
    axes = np.ascontiguousarray(axes[:, ::-1][:, :_PROJECTED]).astype(np.float32)
    projected = np.empty((len(rows), axes.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), 100_000):
        projected[start : start + 100_000] = table.matrix[rows[start : start + 100_000]] @ axes
    return _View(rows, mask, None, axes, projected)


# ---------------------------------------------------------------- recall


def recall(
    ws: Workspace,
    query: str,
    reader: Reader | None = None,
    k: int | None = None,
    budget: int | None = None,
    *,
    as_of: datetime | str | None = None,
    journal: bool = True,
) -> Recall:
    """The memories that bear on a query and that the reader may see, as records and as a block for the prompt.

    >>> recall(ws, "how do I register a service?", Reader(agent="ops")).text  # doctest: +SKIP

    Args:
        ws: the workspace.
        query: the question, as a user or an agent puts it; recalled blocks in it are taken out, secrets are redacted.
        reader: who asks; unset, `global` alone is searched.
        k: how many memories at most; `recall.k` of the settings when unset.
        budget: estimated tokens that the whole block may have; `recall.budget_tokens` when unset.
        as_of: answer as the store stood at this time.
        journal: write the recall to the journal. Only a look that no agent acts on, as a preview of decay, leaves it out.

    Returns:
        the recall; `abstained` with a `reason` when nothing is related, visible or short enough.

    Raises:
        ParameterError: k is below 1 or budget below 0.
        EmbedderMismatch: the memory table was made by another embedder than the workspace opens.
    """
    reader = reader or Reader()
    k = ws.settings.recall.k if k is None else k
    budget = ws.settings.recall.budget_tokens if budget is None else budget
    if k < 1:
        raise ParameterError(f"k is how many memories come at most, 1 or more; got {k}")
    if budget < 0:
        raise ParameterError(f"budget is in tokens, 0 or more; got {budget}")
    moment = parse_time(as_of) or ws.clock()
    asked, _ = ws.redactor.text(clean(strip_recalled(query)).strip()[-_QUERY_CHARS:])
    found = _search(ws, asked, reader.scopes, k, budget, moment, past=as_of is not None)
    record = {
        "query": asked,
        "reader": reader.to_json(),
        "scopes": sorted(reader.scopes),
        "k": k,
        "budget": budget,
        "as_of": iso(moment) if as_of is not None else None,
        "version": found.version,
        "embedder": found.embedder,
        "abstained": not found.items,
        "reason": found.reason,
        "tokens": estimate_tokens(found.text) if found.text else 0,
        "text_sha256": digest(found.text),
        "items": [item.model_dump(mode="json", exclude={"text", "evidence"}) for item in found.items],
        "passed_over": found.passed_over,
    }
    at = ws.clock()
    # Written before the block is handed out, so a killed process loses no trace of what an agent was shown; the disk is not
    # waited for, since that costs more than the search.
    entry = (
        ws.journal.append_entry("recall", record, fsync=False).id
        if journal
        else f"preview_{digest(record)[:24]}"
    )
    return Recall(
        id=entry,
        reader=reader,
        query=asked,
        items=found.items,
        text=found.text,
        tokens=record["tokens"],
        abstained=not found.items,
        reason=found.reason,
        scopes=tuple(sorted(reader.scopes)),
        as_of=moment if as_of is not None else None,
        fragments=load_fragments(ws.path, reader.agent),
        at=at,
    )


@dataclass(frozen=True)
class _Found:
    items: tuple[RecallItem, ...]
    text: str
    reason: str | None
    version: str
    embedder: str
    passed_over: list[dict[str, str]]


def _search(
    ws: Workspace, query: str, scopes: frozenset[Scope], k: int, budget: int, moment: datetime, *, past: bool
) -> _Found:
    import numpy as np

    embedder: Embedder = ws.memory.embedder_for_table()
    snapshot = ws.memory.snapshot()
    cache = _CACHES.setdefault(ws.memory, _Cache())
    if past:
        table = _table_as_of(ws, moment)
        view = _view(table, scopes, ws.settings.recall.matrix_rows)
    else:
        table = cache.open(snapshot)
        view = cache.view(table, scopes, ws.settings.recall.matrix_rows)
    now_us = int(moment.timestamp() * 1e6)

    def nothing(reason: str, passed_over: list[dict[str, str]] | None = None) -> _Found:
        return _Found((), "", reason, snapshot.version, embedder.name, passed_over or [])

    if not query:
        return nothing("the query is empty")
    if not len(view.rows):
        return nothing("no memory in these scopes")
    relevance, vector_found = _relevance(ws, embedder, table, view, query)
    floor = ws.settings.recall.floor_cosine
    floor = embedder.floor_cosine if floor is None else floor
    fresh = table.expires_us[view.rows] > now_us
    relevance = _only(relevance, fresh)
    passes, reason = ranking.gate(relevance, floor=floor, has_query_vector=vector_found)
    places = np.flatnonzero(passes & fresh)
    if not len(places):
        return nothing(reason or "no memory in these scopes that has not expired")

    rough = relevance.total[places] * table.static[view.rows[places]]
    if len(places) > _POOL:
        places = np.sort(places[np.argpartition(-rough, _POOL)[:_POOL]])
    pool = _candidates(ws, table, view, relevance, places, moment, k)
    vectors = table.matrix[[c.row for c in pool]]
    threshold = ws.settings.recall.near_duplicate_cosine
    repeats = ranking.collapse(
        vectors,
        table.has_vector[[c.row for c in pool]],
        [c.text for c in pool],
        [str(c.category) for c in pool],
        embedder.near_duplicate_cosine if threshold is None else threshold,
    )
    kept = [c for place, c in enumerate(pool) if place not in repeats]
    stands_for: dict[str, list[str]] = {}
    for repeat, other in repeats.items():
        stands_for.setdefault(pool[other].id, []).append(pool[repeat].id)
    order = ranking.take_places(
        [c.category for c in kept], [c.relevance for c in kept], [c.score for c in kept], len(kept)
    )
    wanted = [(kept[place], how) for place, how in order]
    chosen, shown, no_room = fit([c.shown() for c, _ in wanted], k, budget, ws.settings.recall.item_tokens)
    passed_over = [{"memory_id": wanted[place][0].id, "why": why} for place, why in no_room.items()]
    passed_over += [
        {"memory_id": pool[repeat].id, "why": f"says the same as {pool[other].id}"}
        for repeat, other in repeats.items()
    ]
    unplaced = [
        c.id for place, (c, _) in enumerate(wanted) if place not in no_room and place not in set(chosen)
    ]
    passed_over += [{"memory_id": memory_id, "why": f"behind the {k} places"} for memory_id in unplaced[:10]]
    picked = [(wanted[place][0], wanted[place][1], item) for place, item in zip(chosen, shown, strict=True)]
    # In the block by slot, then by relevance, which no earlier recall changes: the same state gives the same bytes.
    picked.sort(key=lambda p: (ranking.SLOT_ORDER.index(p[0].category), -p[0].relevance, p[0].id))
    if not picked:
        return nothing(f"no memory fits into {budget} tokens", passed_over)
    items = tuple(
        candidate.item(rank, how, item.text, stands_for.get(candidate.id, []))
        for rank, (candidate, how, item) in enumerate(picked, 1)
    )
    text = render([item for _, _, item in picked])
    return _Found(items, text, None, snapshot.version, embedder.name, passed_over)


def _only(relevance: ranking.Relevance, fresh: NDArray[np.bool_]) -> ranking.Relevance:
    # What has expired must not lift or lower the gate for the rest.
    if fresh.all():
        return relevance
    return ranking.Relevance(
        relevance.total * fresh,
        relevance.cosine * fresh,
        relevance.words * fresh,
        relevance.symbols * fresh,
        relevance.trust,
    )


def _relevance(
    ws: Workspace, embedder: Embedder, table: _Table, view: _View, query: str
) -> tuple[ranking.Relevance, bool]:
    import numpy as np

    vector = _query_vector(embedder, query)
    found = vector is not None
    cosine = np.zeros(len(view.rows), np.float32) if vector is None else view.cosines(table, vector)
    words, symbols = table.words.coverage(_parsed(query), view.mask)
    weight = ws.settings.recall.lexical_weight
    weight = getattr(embedder, "lexical_weight", 0.15) if weight is None else weight
    trust = ranking.latin_share(query) if getattr(embedder, "latin_only", False) else 1.0
    relevance = ranking.fuse(
        cosine,
        table.has_vector[view.rows] & found,
        words[view.rows],
        symbols[view.rows],
        lexical_weight=weight,
        trust=trust,
    )
    return relevance, found


@functools.lru_cache(maxsize=512)
def _parsed(query: str) -> Query:
    return parse_query(query)


def _query_vector(embedder: Embedder, query: str) -> NDArray[np.float32] | None:
    """The query's vector; `None` when it has none, or when the embedder's server is away: then the words alone are asked."""
    from sitoolkit.models.embedders import has_vector

    key = (embedder.name, embedder.sha, query)
    vector = _QUERY_VECTORS.get(key)
    if vector is None:
        try:
            vector = embedder.embed([query], kind="query")[0]
        except ModelError as fault:
            log.warning(
                "the embedder %s does not answer (%s); recall goes by words alone", embedder.name, fault
            )
            return None
        _QUERY_VECTORS[key] = vector
        while len(_QUERY_VECTORS) > 512:
            _QUERY_VECTORS.popitem(last=False)
    return vector if has_vector(vector[None, :])[0] else None


# ---------------------------------------------------------------- scores


class _Candidate(NamedTuple):
    """A row that may get a place; plain values, since most of them do not."""

    row: int
    id: str
    category: Category
    scope: str
    origin: str
    confidence: float
    base_weight: float
    text: str
    evidence: list[str] | None
    relevance: float
    decay: float
    score: float
    cosine: float
    words: float
    symbols: float
    age_days: float

    def shown(self) -> Shown:
        return Shown(self.id, self.category, self.scope, self.origin, self.confidence, self.text)

    def item(self, rank: int, how: str, text: str, stands_for: Iterable[str]) -> RecallItem:
        why = [
            how,
            f"cosine {self.cosine:.2f}",
            f"words {self.words:.2f}",
            f"last used {self.age_days:.0f} days ago",
        ]
        why += [f"stands also for {', '.join(stands_for)}"] if stands_for else []
        why += ["cut"] if text != self.text else []
        parts = {name: round(getattr(self, name), 6) for name in _PARTS}
        return RecallItem(
            memory_id=self.id,
            category=self.category,
            slot=self.category.slot_name,
            rank=rank,
            score=round(self.score, 6),
            parts=parts,
            scope=Scope(self.scope),
            origin=Origin(self.origin),
            confidence=self.confidence,
            text=text,
            evidence=tuple(self.evidence or ()),
            why="; ".join(why),
        )


# The score is the product of the first four; the rest is what the relevance was fused from.
_PARTS = ("relevance", "base_weight", "decay", "confidence", "cosine", "words", "symbols")


def _candidates(
    ws: Workspace,
    table: _Table,
    view: _View,
    relevance: ranking.Relevance,
    places: NDArray[np.int64],
    moment: datetime,
    k: int,
) -> list[_Candidate]:
    """The best of each slot by score and the most relevant of all, best first; only these become Python objects."""
    import numpy as np

    rows = view.rows[places]
    now_us = int(moment.timestamp() * 1e6)
    used_us = table.used_us[rows]
    if access := ws.journal.access():
        ids = table.ids
        for place, row in enumerate(rows.tolist()):
            found = access.get(ids[row])
            if found is not None and found[1] is not None:
                # What was recalled after the moment that is asked about has not happened yet.
                recalled_us = int(found[1].timestamp() * 1e6)
                used_us[place] = max(used_us[place], recalled_us) if recalled_us <= now_us else used_us[place]
    age = np.maximum(now_us - used_us, 0) / 86_400e6
    decay = ranking.decay_factors(
        age,
        table.category[rows],
        table.exempt[rows],
        ws.settings.decay.half_life_days,
        ws.settings.decay.floor,
    )
    related = relevance.total[places]
    score = related * table.static[rows] * decay

    order = np.lexsort((rows, -related, -score))
    categories = table.category[rows]
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[np.lexsort((rows, -score, -related))[:_PER_SLOT]] = True
    for code in range(len(ranking.SLOT_ORDER)):
        chosen[order[categories[order] == code][: k + _PER_SLOT]] = True
    picked = order[chosen[order]]
    numbers = zip(
        rows[picked].tolist(),
        categories[picked].tolist(),
        related[picked].tolist(),
        decay[picked].tolist(),
        score[picked].tolist(),
        relevance.cosine[places[picked]].tolist(),
        relevance.words[places[picked]].tolist(),
        relevance.symbols[places[picked]].tolist(),
        age[picked].tolist(),
        strict=True,
    )
    return [
        _Candidate(
            row, id, ranking.SLOT_ORDER[category], scope, origin, confidence, base_weight, clean(text), evidence,
            *legs,
        )
        for (row, category, *legs), (id, scope, origin, confidence, base_weight, text, evidence) in zip(
            numbers, map(table.shown.row, rows[picked].tolist()), strict=True
        )
    ]  # fmt: skip


# ---------------------------------------------------------------- the past


def _table_as_of(ws: Workspace, moment: datetime) -> _Table:
    """The rows that were active at a moment; their vectors are those that the store kept, else made again."""
    import numpy as np

    from sitoolkit.models.embedders import has_vector

    frame = ws.memory.frame(status="active", as_of=moment)
    ids = frame["id"].to_list()
    kept = ws.memory.vectors(ids)
    missing = [place for place, id in enumerate(ids) if id not in kept]
    matrix = np.zeros((len(ids), ws.embedder.dim), dtype=np.float32)
    for place, id in enumerate(ids):
        if id in kept:
            matrix[place] = kept[id]
    if missing:
        matrix[missing] = ws.embedder.embed(frame["text"].gather(missing).to_list())
    return _tabulate(frame, matrix, has_vector(matrix))


# ---------------------------------------------------------------- who saw what


def explain(ws: Workspace, id: str) -> dict[str, Any]:
    """The journal's record of a recall: query, reader, what came with its score parts, what was passed over and why.

    >>> explain(ws, recall(ws, "…").id)["items"]  # doctest: +SKIP

    Raises:
        NotFoundError: the journal holds no recall of this id.
    """
    entry = ws.journal.find(id)
    if entry.event != "recall":
        raise NotFoundError(f"{id!r} is a journal entry of kind {entry.event!r}, not a recall")
    return _as_record(entry)


def who_saw(ws: Workspace, id: str) -> list[dict[str, Any]]:
    """Every recall that showed a memory, oldest first: recall id, time, reader, query, rank and score.

    Raises:
        NotFoundError: neither the journal nor the memory table knows the memory.
    """
    seen = []
    for entry in ws.journal.events(kind="recall"):
        record = _as_record(entry)
        for item in record["items"]:
            if item["memory_id"] == id:
                seen.append(
                    {
                        "recall_id": record["id"],
                        "at": record["at"],
                        "reader": record["reader"],
                        "query": record["query"],
                        "rank": item["rank"],
                        "score": item["score"],
                        "slot": item["slot"],
                    }
                )
    if not seen and ws.memory.get(id) is None:
        raise NotFoundError(f"no memory {id!r}; sitoolkit memory list shows their ids")
    return seen


def _as_record(entry: Entry) -> dict[str, Any]:
    return {"id": entry.id, "at": iso(entry.at), "run_id": entry.run_id, **entry.data}
