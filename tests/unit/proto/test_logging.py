"""Fields of log lines: their text can be taken apart, and what is bound holds for a block of one thread."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.proto.logging import MAX_FIELD_CHARS, LogEvent, context_fields, event_text, log_context, log_event_to


def test_values_that_could_mislead_are_quoted_and_long_ones_cut() -> None:
    assert (
        event_text("x", a="b c=d\ne", n=3, empty="", path="/a/b-1.log")
        == 'x a="b c=d\\ne" n=3 empty="" path=/a/b-1.log'
    )
    assert len(event_text("x", a="y" * 10_000)) < MAX_FIELD_CHARS + 20


def test_innermost_field_of_a_name_holds_for_its_block_and_thread() -> None:
    observed: list[dict[str, object]] = []
    with log_context(table="t", group="g"):
        with log_context(lambda: {"group": "h", "split": 7}):
            assert context_fields() == {"table": "t", "group": "h", "split": 7}
            thread = threading.Thread(target=lambda: observed.append(context_fields()))
            thread.start()
            thread.join()
        assert context_fields() == {"table": "t", "group": "g"}
        with pytest.raises(ValueError, match="x"), log_context(a=1):
            raise ValueError("x")
    assert context_fields() == {}
    assert observed == [{}]


def test_fields_are_not_computed_for_a_line_that_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("penstock.test.fields")
    with caplog.at_level(logging.WARNING, logger.name), log_context(lambda: pytest.fail("asked")):
        log_event_to(logger, "quiet", level=logging.INFO, n=1)
    with caplog.at_level(logging.INFO, logger.name):
        log_event_to(logger, "said", n=1)
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["log_event"]) == ("said n=1", LogEvent("said", {"n": 1}))
