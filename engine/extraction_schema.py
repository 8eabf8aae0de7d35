"""JSON schema of an extraction reply in the layout "json"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
# A list of values, since not every server that enforces schemas enforces bounds of numbers.
_STRENGTH = {"type": "integer", "enum": list(range(1, 11))}


def _closed_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list_of(member: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": member}


EXTRACTION_SCHEMA: Mapping[str, Any] = _closed_object(
    entities=_list_of(_closed_object(name=_STRING, type=_STRING, description=_STRING)),
    relationships=_list_of(
        _closed_object(source=_STRING, target=_STRING, description=_STRING, keywords=_STRINGS, strength=_STRENGTH)
    ),
    keywords=_STRINGS,
)
"""The members stand in the order in which they are written: a description before the strength it is judged by."""
