"""The seam to chat models: a prompt and a JSON schema come in, a validated object goes out, or an error that says why not.

Three implementations: `OllamaChat` (the official client), `TemplateModel` (no model; callers word by template) and
`sitoolkit.testing.ScriptedChat`. An answer is validated against the schema, repaired once with the error shown to the
model, and then given up as `ModelOutputInvalid`. Nothing here decides what may be said: `grounding` does.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sitoolkit.errors import ModelOutputInvalid, ModelUnavailable
from sitoolkit.schema import mismatch
from sitoolkit.settings import ModelSettings

if TYPE_CHECKING:
    import ollama

__all__ = ["ChatModel", "Exchange", "OllamaChat", "TemplateModel", "extract_json", "open_chat"]

_log = logging.getLogger("sitoolkit")
_CONNECT_SECONDS = 3.0
_REPAIRS = 1  # design: validated, repaired once, then the template
_ANSWER_TOKENS = (
    1_024  # above the sum of the string bounds of every schema in sitoolkit; JSON cut by it is invalid
)


class ChatModel(Protocol):
    """Anything that answers a prompt with an object that fits a JSON schema."""

    @property
    def name(self) -> str:
        """The model's name; `template` where there is none."""
        ...

    def complete(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> dict[str, Any]:
        """Answer `prompt` with an object that is valid against `schema`.

        Raises:
            ModelUnavailable: no model answers.
            ModelOutputInvalid: two answers in a row do not fit the schema.
        """
        ...


@dataclass(frozen=True)
class Exchange:
    """What was sent to a model and what it answered; kept in the journal when `models.keep_prompts` is set."""

    model: str
    digest: str
    prompt: str
    answer: str
    valid: bool
    error: str | None
    seconds: float
    tokens: int


@dataclass
class ChatCounts:
    """How a model did so far in this process."""

    asked: int = 0
    repaired: int = 0
    invalid: int = 0
    unavailable: int = 0
    tokens: int = 0
    seconds: float = 0.0


class TemplateModel:
    """No model at all: whoever asks it is told to word the claims by template."""

    name = "template"

    def complete(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> dict[str, Any]:
        """Always raises: there is no model.

        Raises:
            ModelUnavailable: always.
        """
        raise ModelUnavailable("no chat model is set; `sitoolkit doctor` says how to add one")


# ---------------------------------------------------------------- answers

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"^.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)


def answer_tokens(schema: Mapping[str, Any]) -> int:
    """How many tokens the longest answer that fits the schema may take; JSON that is cut below that is invalid.

    Strings count half a token a character, which degenerate text reaches; one without a bound counts 400 characters.
    """
    kind = schema.get("type")
    if kind == "object":
        return 8 + sum(8 + answer_tokens(entry) for entry in schema.get("properties", {}).values())
    if kind == "array":
        return 8 + int(schema.get("maxItems", 8)) * answer_tokens(schema.get("items", {}))
    if kind == "string" and "enum" not in schema:
        return 8 + int(schema.get("maxLength", 400)) // 2
    return 24


def extract_json(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Find the object in a model's answer: thoughts, prose and code fences around it are dropped.

    Raises:
        ModelOutputInvalid: the answer is empty, holds no whole JSON object, or none that fits the schema.
    """
    bare = _OPEN_THOUGHT.sub("", _THOUGHT.sub("", text)).strip()
    if not bare:
        raise ModelOutputInvalid("the answer is empty")
    fault = "the answer holds no whole JSON object"
    for candidate in [*_FENCE.findall(bare), bare]:
        for value in _objects(candidate):
            wrong = mismatch(value, schema)
            if wrong is None:
                return value
            fault = wrong
    raise ModelOutputInvalid(f"{fault}; the answer began {bare[:80]!r}")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    at = text.find("{")
    tried = 0
    while at >= 0 and tried < 200:  # an answer of nothing but braces must not cost quadratic time
        tried += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


# ---------------------------------------------------------------- Ollama


@dataclass
class OllamaChat:
    """A chat model behind the Ollama HTTP API.

    >>> chat = OllamaChat("qwen3:8b")                                        # doctest: +SKIP
    >>> chat.complete("Is 7 prime?", {"type": "object", "required": ["prime"],  # doctest: +SKIP
    ...     "properties": {"prime": {"type": "boolean"}}})

    Args:
        model: a model name that the server knows.
        host: address of the server; empty: `OLLAMA_HOST`, else the client's default.
        load_timeout_s: how long loading the model may take, in seconds; asked for once, before the first answer.
        answer_timeout_s: how long one whole answer may take, in seconds.
        thinking: `True`/`False` turns thinking on or off; `None` leaves it to the model.
        options: Ollama's options; temperature 0 and a fixed seed unless said otherwise, so that the same input gives the same output.
        on_exchange: called with each `Exchange`.
    """

    model: str
    host: str = ""
    load_timeout_s: float = 120.0
    answer_timeout_s: float = 60.0
    keep_alive: str = "5m"
    thinking: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    on_exchange: Callable[[Exchange], None] | None = None
    counts: ChatCounts = field(default_factory=ChatCounts)
    _digest: str | None = field(default=None, repr=False)
    _loaded: bool = False

    @property
    def name(self) -> str:
        return self.model

    @contextmanager
    def client(self, timeout_s: float) -> Iterator[ollama.Client]:
        """A client that is closed afterwards: no socket outlives the request that needed it."""
        import httpx
        import ollama

        with ollama.Client(
            host=self.host or None, timeout=httpx.Timeout(timeout_s, connect=_CONNECT_SECONDS)
        ) as client:
            yield client

    def _unavailable(self, what: str, fault: BaseException | None = None) -> ModelUnavailable:
        self.counts.unavailable += 1
        self._loaded = False
        detail = f" ({type(fault).__name__}: {str(fault)[:160]})" if fault is not None else ""
        return ModelUnavailable(
            f"Ollama at {_shown(self.host)}: {what}{detail}; `sitoolkit doctor` says what is missing"
        )

    def models(self) -> list[str]:
        """Names of the models that the server has.

        Raises:
            ModelUnavailable: the server does not answer.
        """
        return [str(entry.model) for entry in self._listing()]

    def _listing(self) -> list[Any]:
        import httpx
        import ollama

        try:
            with self.client(self.answer_timeout_s) as client:
                return list(client.list().models)
        except (ConnectionError, httpx.HTTPError, ollama.ResponseError, ValueError) as fault:
            raise self._unavailable("does not answer", fault) from fault

    @property
    def digest(self) -> str:
        """The server's digest of the model, so that a kept answer can be traced to exact weights; empty if unknown."""
        if self._digest is None:
            self._digest = next(
                (
                    str(entry.digest or "")
                    for entry in self._listing()
                    if _same_model(str(entry.model), self.model)
                ),
                "",
            )
        return self._digest

    def warm_up(self) -> None:
        """Load the model; does nothing when this object has done so already.

        Raises:
            ModelUnavailable: the server does not answer, has no such model, or loads for longer than `load_timeout_s`.
        """
        if self._loaded:
            return
        import httpx
        import ollama

        try:
            with self.client(self.load_timeout_s) as client:
                client.generate(model=self.model, prompt="", keep_alive=self.keep_alive)
        except ollama.ResponseError as fault:
            if fault.status_code == 404:
                raise self._unavailable(
                    f"has no model {self.model!r}; run: ollama pull {self.model}"
                ) from fault
            raise self._unavailable(f"could not load {self.model!r}", fault) from fault
        except httpx.TimeoutException as fault:
            raise self._unavailable(
                f"{self.model!r} did not load within {self.load_timeout_s:g} s", fault
            ) from fault
        except (ConnectionError, httpx.HTTPError, ValueError) as fault:
            raise self._unavailable("does not answer", fault) from fault
        self._loaded = True

    def complete(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> dict[str, Any]:
        """See `ChatModel.complete`. An interrupt closes the connection, which makes the server stop."""
        self.warm_up()
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        for attempt in range(_REPAIRS + 1):
            self.counts.asked += 1
            self.counts.repaired += attempt > 0
            begun = time.monotonic()
            answer, tokens, cut = self._answer(messages, schema)
            seconds = time.monotonic() - begun
            self.counts.seconds += seconds
            self.counts.tokens += tokens
            try:
                if cut:
                    raise ModelOutputInvalid(f"the answer was cut after {tokens} tokens")
                value = extract_json(answer, schema)
            except ModelOutputInvalid as fault:
                self._tell(messages, answer, str(fault), seconds, tokens)
                if attempt == _REPAIRS:
                    self.counts.invalid += 1
                    raise
                repair = f"That answer is not valid: {fault}. Answer again with one JSON object that fits the schema, nothing else."
                messages = [
                    *messages,
                    {"role": "assistant", "content": answer[:4_000]},
                    {"role": "user", "content": repair},
                ]
                continue
            self._tell(messages, answer, None, seconds, tokens)
            return value
        raise AssertionError("unreachable")

    def _tell(
        self, messages: list[dict[str, str]], answer: str, error: str | None, seconds: float, tokens: int
    ) -> None:
        if self.on_exchange is not None:
            sent = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
            self.on_exchange(
                Exchange(self.model, self.digest, sent, answer, error is None, error, seconds, tokens)
            )

    def _answer(self, messages: list[dict[str, str]], schema: Mapping[str, Any]) -> tuple[str, int, bool]:
        """One streamed answer: its text, its length in tokens, and whether the length limit cut it."""
        import httpx
        import ollama

        until = time.monotonic() + self.answer_timeout_s
        content: list[str] = []
        thought: list[str] = []
        options = {
            "temperature": 0,
            "seed": 7,
            "num_predict": max(256, answer_tokens(schema)),
            **self.options,
        }
        last: Any = None
        try:
            with self.client(self.answer_timeout_s) as client:
                stream = client.chat(
                    model=self.model, messages=messages, stream=True, format=dict(schema), think=self.thinking,
                    options=options, keep_alive=self.keep_alive,
                )  # fmt: skip
                with closing(stream) as parts:  # type: ignore[type-var]
                    for part in parts:
                        content.append(part.message.content or "")
                        thought.append(part.message.thinking or "")
                        last = part
                        if time.monotonic() > until:
                            raise self._unavailable(
                                f"{self.model!r} did not answer within {self.answer_timeout_s:g} s"
                            )
        except ollama.ResponseError as fault:
            if fault.status_code == 404:
                raise self._unavailable(
                    f"has no model {self.model!r}; run: ollama pull {self.model}"
                ) from fault
            raise self._unavailable(f"refused with status {fault.status_code}", fault) from fault
        except httpx.TimeoutException as fault:
            raise self._unavailable(
                f"{self.model!r} did not answer within {self.answer_timeout_s:g} s", fault
            ) from fault
        except (
            ConnectionError,
            httpx.HTTPError,
            httpx.StreamError,
            json.JSONDecodeError,
            ValueError,
        ) as fault:
            raise self._unavailable("broke off in the middle of an answer", fault) from fault
        if last is None or not last.done:
            raise self._unavailable("broke off in the middle of an answer")
        text = "".join(content)
        return (
            text if text.strip() else "".join(thought),
            int(last.eval_count or 0),
            last.done_reason == "length",
        )


def _shown(host: str) -> str:
    """The address as it may be printed: without user and password."""
    chosen = host or os.environ.get("OLLAMA_HOST") or "http://127.0.0.1:11434"
    return re.sub(r"//[^/@]*@", "//", chosen)


def _same_model(one: str, other: str) -> bool:
    return one.removesuffix(":latest") == other.removesuffix(":latest")


def open_chat(settings: ModelSettings, on_exchange: Callable[[Exchange], None] | None = None) -> ChatModel:
    """The chat model that the settings ask for.

    `template` needs no server. `ollama` must be there. `auto` takes Ollama where it answers and has the model, else
    templates, and says so once in the log.

    Raises:
        ModelUnavailable: `ollama` was asked for and does not answer, or has no such model.
    """
    if settings.chat == "template":
        return TemplateModel()
    chat = OllamaChat(
        settings.chat_model,
        host=settings.host,
        load_timeout_s=settings.load_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        keep_alive=settings.keep_alive,
        thinking=settings.thinking,
        options=settings.options,
        on_exchange=on_exchange,
    )
    try:
        names = chat.models()
        if not any(_same_model(name, chat.model) for name in names):
            raise ModelUnavailable(f"Ollama has no model {chat.model!r}; run: ollama pull {chat.model}")
    except ModelUnavailable as fault:
        if settings.chat == "ollama":
            raise
        _log.warning("words come from templates: %s", fault)
        return TemplateModel()
    return chat
