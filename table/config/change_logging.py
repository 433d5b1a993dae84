"""Which images of changed rows a table's writers log. Pure.

Source: Hudi `HoodieTableConfig.isCDCEnabled`, `HoodieCDCSupplementalLoggingMode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from penstock.proto.errors import TableError

CDC_ENABLED: Final = "hoodie.table.cdc.enabled"
"""Whether the table's writers log changes."""
LOGGING_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"
"""Which images they log."""


class ChangeLogging(StrEnum):
    """What a logged change has beside its kind."""

    OP_KEY_ONLY = "op_key_only"
    """The record key."""
    DATA_BEFORE = "data_before"
    """The record key, and the row before the change."""
    DATA_BEFORE_AFTER = "data_before_after"
    """The rows before and after the change."""


def change_logging(raw: Mapping[str, str], where: str) -> ChangeLogging | None:
    """What the table's writers log, by its properties; None for a table without change logging.

    TableError, beginning with `where`, for an unknown mode.
    """
    if raw.get(CDC_ENABLED, "").strip().lower() != "true":
        return None
    text = raw.get(LOGGING_MODE, "").strip().lower() or ChangeLogging.DATA_BEFORE_AFTER
    if text not in list(ChangeLogging):
        raise TableError(f"{where}: {LOGGING_MODE} is {text[:60]!r}, expected one of {', '.join(ChangeLogging)}")
    return ChangeLogging(text)
