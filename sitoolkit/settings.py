"""Every path and threshold of a workspace, typed, from `sitoolkit.toml` and `SITOOLKIT_*` variables.

Comes in: the workspace folder and the environment. Goes out: one frozen `Settings`. A variable wins over the file, the
file over the default; names are the section and the key, as in `SITOOLKIT_DISTILL_MIN_SAMPLES=5`. Where a default comes
from stands beside it: [O] and [H] are the two systems that sitoolkit grew from, [M] was measured for sitoolkit.
"""

from __future__ import annotations

import difflib
import os
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sitoolkit.errors import ConfigError

__all__ = ["Settings", "load_settings", "workspace_path"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class RedactionSettings(_Section):
    extra_keys: tuple[str, ...] = ()  # keys whose values are secret here, beside the built-in ones
    allow_keys: tuple[str, ...] = ()  # keys that are never secret here
    extra_patterns: dict[str, str] = Field(default_factory=dict)  # kind -> regular expression


class CaptureSettings(_Section):
    write_tools: tuple[str, ...] = ()  # tool names that change state, whatever they are called
    read_tools: tuple[str, ...] = ()  # tool names that do not
    args_chars: int = Field(600, ge=50)  # [O] cap of the arguments in a precedent's text
    result_chars: int = Field(400, ge=0)  # [O]
    stored_result_chars: int = Field(8_000, ge=200)  # cap of a result in the telemetry log
    base_weight: float = Field(0.5, gt=0)  # [O]
    confidence: float = Field(0.8, ge=0, le=1)  # [O]


class DistillSettings(_Section):
    min_samples: int = Field(5, ge=2)  # [O]
    window_days: float = Field(30, gt=0)  # [O]
    min_support: float = Field(0.8, gt=0, le=1)  # share of the group in which a claim must hold
    max_claims: int = Field(24, ge=1)


class RecallSettings(_Section):
    k: int = Field(5, ge=1)
    budget_tokens: int = Field(800, ge=16)
    item_tokens: int = Field(400, ge=8)  # cap of one memory's text in a prompt
    lexical_weight: float | None = Field(None, ge=0, le=1)  # None: as calibrated for the embedder [M]
    near_duplicate_cosine: float | None = None  # None: as calibrated for the embedder
    floor_cosine: float | None = None  # None: as calibrated for the embedder
    matrix_rows: int = Field(200_000, ge=0)  # above, recall compares projected vectors first [M]


class DecaySettings(_Section):
    half_life_days: dict[str, float] = Field(
        default_factory=lambda: {
            "operational_event": 60.0,
            "expert_knowledge": 180.0,
            "reflection": 30.0,
            "learned_fact": 365.0,
        }
    )  # usage_guide: does not decay
    floor: float = Field(0.1, ge=0, le=1)  # [O]
    unused_days: float = Field(90, gt=0)  # demote what no recall served in so many days
    recent_days: float = Field(14, gt=0)  # what was served within is kept
    promote_count: int = Field(5, ge=2)
    promote_agents: int = Field(3, ge=2)
    keep_states_days: float = Field(90, ge=0)  # how long superseded and retired rows stay in the table


class FrictionSettings(_Section):
    threshold: int = Field(3, ge=1)  # [H]
    thresholds: dict[str, int] = Field(default_factory=dict)  # "tool", "tool:MODE" or ":MODE" -> threshold


class SignatureSettings(_Section):
    hours: float = Field(24, gt=0)  # [O]
    tail_bytes: int = Field(2_000_000, ge=1_000)  # [O]
    tier: Literal["small", "medium", "large"] = "small"
    total_chars: int = Field(24_000, ge=1_000)  # cap on all that a scan prints


class LessonSettings(_Section):
    hours: float = Field(168, gt=0)  # [O]
    limit: int = Field(50, ge=1)  # [O]
    ttl_days: float = Field(30, gt=0)  # [O]
    scope: Literal["global", "origin"] = "global"
    min_confidence: float = Field(0.5, ge=0, le=1)  # lower Wilson bound of the rule at 95 %
    near_duplicate_cosine: float | None = None


class MaintenanceSettings(_Section):
    min_failures: int = Field(10, ge=1)  # [H]
    min_sessions: int = Field(3, ge=1)  # [H]
    sessions: int = Field(20, ge=5)  # [H] N >= 5


class ToolSettings(_Section):
    auto_probation: bool = False
    auto_probation_recipes_only: bool = True
    seconds: float = Field(10, gt=0)
    memory_mb: int = Field(512, ge=64)
    allowed_imports: tuple[str, ...] = ()


class ModelSettings(_Section):
    chat: Literal["auto", "template", "ollama"] = "template"
    chat_model: str = "qwen3:8b"
    embedder: Literal["auto", "minilm", "wordllama", "hashing", "ollama"] = "auto"
    embed_model: str = "nomic-embed-text"
    minilm_folder: str = ""  # model.onnx and tokenizer.json of your own; empty: those of the minilm extra
    host: str = ""  # empty: OLLAMA_HOST, else the client's default
    thinking: bool | None = None
    keep_alive: str = "5m"
    load_timeout_s: float = Field(120, gt=0)
    answer_timeout_s: float = Field(60, gt=0)
    options: dict[str, Any] = Field(default_factory=dict)
    cache_folder: str = ""  # of vectors from a server; empty: the workspace's own
    keep_prompts: bool = False
    prompt_tokens: int = Field(3_000, ge=200)


class StoreSettings(_Section):
    lock_timeout_s: float = Field(30, ge=0)
    fsync: bool = True
    seal_after_days: float = Field(1, ge=0)  # days of telemetry older than this become Parquet


class NightlySettings(_Section):
    sources: tuple[str, ...] = ()  # files, folders and globs of transcripts that each night takes in
    logs: tuple[str, ...] = ()  # log files whose errors are grouped beside the telemetry's
    notebooks: tuple[str, ...] = (
        "01_capture_replay",
        "02_pattern_distillation",
        "03_reflection_triage",
        "04_memory_decay",
        "06_health",
    )  # in this order; a path names one of your own
    apply_decay: bool = (
        True  # carry the night's decay plan out; each change is in the journal and can be undone
    )
    deadline_minutes: float = Field(120, gt=0)
    keep_days: float = Field(30, ge=0)
    keep_failed_days: float = Field(90, ge=0)
    max_age_hours: float = Field(36, gt=0)  # `runs doctor` fails when the last good night is older


class Settings(_Section):
    """All settings of a workspace, a section a part."""

    redaction: RedactionSettings = RedactionSettings()
    capture: CaptureSettings = CaptureSettings()
    distill: DistillSettings = DistillSettings()
    recall: RecallSettings = RecallSettings()
    decay: DecaySettings = DecaySettings()
    friction: FrictionSettings = FrictionSettings()
    signatures: SignatureSettings = SignatureSettings()
    lessons: LessonSettings = LessonSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    tools: ToolSettings = ToolSettings()
    models: ModelSettings = ModelSettings()
    store: StoreSettings = StoreSettings()
    nightly: NightlySettings = NightlySettings()


FILE_NAME = "sitoolkit.toml"
_PREFIX = "SITOOLKIT_"
_OTHER_VARIABLES = {
    "SITOOLKIT_HOME",
    "SITOOLKIT_NOW",
    "SITOOLKIT_OFFLINE",
    "SITOOLKIT_RENDERER",
    "SITOOLKIT_RUN_ID",  # the nightly runner names its run to the notebooks it starts
    "SITOOLKIT_UNATTENDED",  # set where no person can decide
    "SITOOLKIT_TRACES",  # where the tests find recordings
}


def workspace_path(
    path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """The workspace folder: the argument, else `SITOOLKIT_HOME`, else `.sitoolkit` in the current folder.

    Raises:
        ConfigError: the name is empty, or holds control characters or bytes that are not UTF-8: the memory table cannot lie there.
    """
    environ = os.environ if environ is None else environ
    chosen = path if path is not None else environ.get("SITOOLKIT_HOME") or ".sitoolkit"
    if not os.fspath(chosen):
        raise ConfigError("the workspace's name is empty; the current folder is written `.`")
    folder = Path(chosen).expanduser().absolute()
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in str(folder)):
        raise ConfigError(
            f"the workspace's path {str(folder)!r} holds control characters or bytes that are not UTF-8; choose another folder"
        )
    return folder


def load_settings(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of a workspace.

    Args:
        folder: the workspace; its `sitoolkit.toml` is read when there is one.
        environ: variables to read; the process's by default.

    Raises:
        ConfigError: a name is unknown, or a value out of range; names the setting, where it came from, and the nearest name.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, dict[str, Any]] = {}
    came_from: dict[tuple[str, str], str] = {}
    file = folder / FILE_NAME if folder else None
    if file and file.is_file():
        try:
            loaded = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
            raise ConfigError(f"{file} is not valid TOML: {fault}") from fault
        for section, entries in loaded.items():
            if not isinstance(entries, dict):
                raise ConfigError(f"{file}: {section!r} stands outside a section; write it below [section]")
            for key, value in entries.items():
                values.setdefault(section, {})[key] = value
                came_from[section, key] = str(file)
    for name, text in environ.items():
        if not name.startswith(_PREFIX) or name in _OTHER_VARIABLES:
            continue
        section, _, key = name.removeprefix(_PREFIX).lower().partition("_")
        values.setdefault(section, {})[key] = _from_text(section, key, text)
        came_from[section, key] = f"variable {name}"
    _refuse_unknown(values, came_from)
    try:
        return Settings.model_validate(values)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = tuple(str(part) for part in first["loc"][:2])
        origin = came_from.get((where[0], where[1]) if len(where) == 2 else ("", ""), "settings")
        raise ConfigError(
            f"{'.'.join(where)} from {origin}: {first['msg']}, got {first['input']!r:.80}"
        ) from fault


def _from_text(section: str, key: str, text: str) -> Any:
    field = Settings.model_fields.get(section)
    inner = (
        field.annotation.model_fields.get(key)
        if field and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        else None
    )
    kind = str(inner.annotation) if inner else ""
    if kind.startswith(("tuple", "dict")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return [part.strip() for part in text.split(",") if part.strip()]
    if "None" in kind and text.lower() in ("", "none"):
        return None
    return text


def _refuse_unknown(
    values: Mapping[str, Mapping[str, Any]], came_from: Mapping[tuple[str, str], str]
) -> None:
    sections = Settings.model_fields
    for section, entries in values.items():
        if section not in sections:
            key = next(iter(entries), "")
            raise ConfigError(
                f"unknown settings section {section!r} from {came_from.get((section, key), 'settings')}{_near(section, sections)}"
            )
        known = sections[section].annotation.model_fields  # type: ignore[union-attr]
        for key in entries:
            if key not in known:
                raise ConfigError(
                    f"unknown setting {section}.{key} from {came_from[section, key]}{_near(key, known)}"
                )


def _near(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
