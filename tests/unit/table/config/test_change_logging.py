"""The mode of change logging, by a table's properties."""

from __future__ import annotations

import pytest

from penstock.proto.errors import TableError
from penstock.table.config.change_logging import CDC_ENABLED, LOGGING_MODE, ChangeLogging, change_logging


def test_mode_is_that_of_the_properties() -> None:
    assert change_logging({}, "t") is change_logging({LOGGING_MODE: "op_key_only", CDC_ENABLED: "false"}, "t") is None
    assert change_logging({CDC_ENABLED: " TRUE "}, "t") is ChangeLogging.DATA_BEFORE_AFTER
    for mode in ChangeLogging:
        assert change_logging({CDC_ENABLED: "true", LOGGING_MODE: f" {mode.upper()} "}, "t") is mode


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(
        TableError, match=r"^table t: hoodie.*mode is 'all', expected one of op_key_only, data_before, "
    ):
        change_logging({CDC_ENABLED: "true", LOGGING_MODE: "ALL"}, "table t")
