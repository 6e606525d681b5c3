"""Checks a notebook's parameters before it starts: comes in names and values, goes out values of the declared types.

Papermill neither types nor checks parameters; here an unknown name or a value of the wrong type is an error that names the
nearest known one. Types and help are those of the notebook's cell tagged `parameters`, as `papermill.inspect_notebook` reads it.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitoolkit.errors import ParameterError

__all__ = ["Parameter", "check_parameters", "declared_parameters", "unknown_parameter"]

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str
    """`str`, `int`, `float`, `bool`, `list[str]`, `dict` …; empty when the cell does not say."""
    default: str
    """The default, as it is written in the cell."""
    help: str
    """The comment on its line."""


def declared_parameters(notebook: Path) -> dict[str, Parameter]:
    """What a notebook's parameters cell declares, in its order.

    >>> declared_parameters(find_notebook("02"))["min_samples"].type
    'int'

    Raises:
        ParameterError: the file is not a notebook.
    """
    logging.getLogger("papermill").setLevel(logging.ERROR)  # it announces each file that it opens
    import papermill

    try:
        found = papermill.inspect_notebook(str(notebook))
    except Exception as error:
        raise ParameterError(
            f"{notebook} is not a notebook that can be run: {str(error).splitlines()[0]:.200}"
        ) from error
    return {
        name: Parameter(
            name,
            "" if given["inferred_type_name"] == "None" else given["inferred_type_name"],
            given["default"],
            given["help"],
        )
        for name, given in found.items()
    }


def unknown_parameter(name: str, known: Sequence[str], where: str) -> ParameterError:
    """The error for a name that is not declared; names the nearest one."""
    near = difflib.get_close_matches(name, known, 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
    return ParameterError(f"unknown parameter {name!r} for {where}; {hint}")


def check_parameters(notebook: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, each of the type that the notebook declares; text is converted.

    Args:
        notebook: the file.
        given: values by name; text stands for numbers, `true`/`false`, and JSON or comma-separated lists.

    Raises:
        ParameterError: a name is unknown or a value does not fit; names the nearest known name.
    """
    declared = declared_parameters(notebook)
    checked = {}
    for name, value in given.items():
        if name not in declared:
            raise unknown_parameter(name, list(declared), notebook.stem)
        try:
            checked[name] = _convert(value, declared[name].type)
        except (ValueError, TypeError) as error:
            kind = declared[name].type
            raise ParameterError(
                f"parameter {name!r} of {notebook.stem} is {kind}, got {value!r:.80}: {error}; default {declared[name].default}"
            ) from error
    return checked


def _convert(value: Any, declared: str) -> Any:
    kind = declared.replace("typing.", "").strip()
    if kind.startswith("Optional[") and kind.endswith("]"):
        if value is None or value == "None":
            return None
        kind = kind.removeprefix("Optional[").removesuffix("]")
    base = kind.partition("[")[0].lower()
    if base == "str":
        return _expect(value, str)
    if base == "bool":
        return _to_bool(value)
    if base == "int":
        return int(value) if isinstance(value, str) else _expect(value, int)
    if base == "float":
        return (
            float(value)
            if isinstance(value, str | int) and not isinstance(value, bool)
            else _expect(value, float)
        )
    if base in ("list", "tuple", "sequence"):
        return _to_list(value, kind.partition("[")[2].removesuffix("]"))
    if base in ("dict", "mapping"):
        return _expect(json.loads(value) if isinstance(value, str) else value, dict)
    return value


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"a value of type {type(value).__name__}")
    return value


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        if value.strip().lower() in _TRUE:
            return True
        if value.strip().lower() in _FALSE:
            return False
        raise ValueError("write true or false")
    return bool(_expect(value, bool))


def _to_list(value: Any, inner: str) -> list[Any]:
    if isinstance(value, str):
        text = value.strip()
        value = (
            json.loads(text)
            if text.startswith("[")
            else [part.strip() for part in text.split(",") if part.strip()]
        )
    if not isinstance(value, list | tuple):
        raise TypeError(f"a value of type {type(value).__name__}")
    return [_convert(item, inner) for item in value] if inner and "," not in inner else list(value)
