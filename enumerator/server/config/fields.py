"""Names and ranges of the fields of settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.proto.errors import ConfigurationError


def camel(name: str) -> str:
    """The key of a field in the file."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


Ranges = Mapping[str, tuple[float, float]]
"""Field -> its minimum and maximum value."""

BY_FIELDS: Final[dict[str, object]] = {"extra": "forbid", "alias_generator": camel}
"""The pydantic configuration of each class: the keys are exactly the fields, in camelCase."""


def within(name: str, value: float, least: float, most: float) -> None:
    """ConfigurationError unless the value is in the range, ends included."""
    if not least <= value <= most:
        raise ConfigurationError(f"{name}: got {value:g}, expected {least:g} to {most:g}")
