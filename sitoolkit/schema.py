"""Checks a JSON value against a JSON schema: value and schema come in, what is wrong goes out, or `None`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["mismatch"]


def mismatch(value: object, schema: Mapping[str, Any]) -> str | None:
    """Say what is wrong with `value` under the schema (draft 2020-12), with its place, or `None` where it fits.

    >>> mismatch({"port": "x"}, {"properties": {"port": {"type": "integer"}}})
    "port: 'x' is not of type 'integer'"
    """
    import jsonschema

    fault = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if fault is None:
        return None
    where = "/".join(str(part) for part in fault.absolute_path) or "the value"
    return f"{where}: {fault.message[:300]}"
