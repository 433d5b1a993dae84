"""Values of options: durations and truth values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.types import MAX_DURATION_US, Duration, Functions, TrueFalse

PAIRS = (("a.B", "m.n:f"), ("c", "m:g.h"))


@pytest.mark.parametrize(
    "given_value", ["a.B=m.n:f,c=m:g.h", " c = m:g.h , a.B = m.n:f ", dict(PAIRS), {**dict(PAIRS)}]
)
def test_functions(given_value: object) -> None:
    assert Functions().parse("mergers", given_value) == PAIRS


@pytest.mark.parametrize(
    "given_value",
    [
        "a",
        "a=",
        "=m:f",
        "a=m",
        "a=m:f,a=m:g",
        "a=m:f()",
        "a=m:f;import os",
        "a=../x:f",
        {"a": 7},
        {7: "m:f"},
        7,
        ["a=m:f"],
    ],
)
def test_functions_in_another_form_are_refused(given_value: object) -> None:
    with pytest.raises(ConfigurationError, match="option mergers"):
        Functions().parse("mergers", given_value)


S, M, H, D = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10 minutes", 10 * M),
        ("30s", 30 * S),
        ("1h", H),
        ("500 ms", 500_000),
        ("PT10M", 10 * M),
        ("pt1h30m", 90 * M),
        ("P2DT0.5S", 2 * D + 500_000),
        ("PT0.000001S", 1),
        ("1h 30m", 90 * M),
        ("1 Day", D),
        ("2 seconds", 2 * S),
        ("7 us", 7),
        ("0s", 0),
        ("  5 min ", 5 * M),
        ("10000 days", MAX_DURATION_US),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert Duration().parse("d", text) == microseconds


@pytest.mark.parametrize("bare", ["10", "0", "1.5", "-3", " 7 ", 600])
def test_number_without_a_unit_is_refused_with_a_hint(bare: object) -> None:
    with pytest.raises(ConfigurationError, match=r"option idleTimeout: got .*without a unit: say .*minutes"):
        Duration().parse("idleTimeout", bare)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "P",
        "PT",
        "P1DT",
        "P1M",
        "P1Y",
        "-5s",
        "5 parsecs",
        "5s x",
        "s",
        "1.5h",
        "10001 days",
        "٣s",
        "infinite",
    ],
)
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"option d: got .*expected a duration"):
        Duration().parse("d", text)


@pytest.mark.parametrize("value", [None, 1.5, ["1s"], True])
def test_values_that_are_not_text_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="option d: got"):
        Duration().parse("d", value)


def test_word_in_place_of_a_duration() -> None:
    assert Duration(word="infinite").parse("d", " Infinite ") is None
    assert Duration(word="infinite").parse("d", "1s") == S
    with pytest.raises(ConfigurationError, match="or infinite"):
        Duration(word="infinite").parse("d", "endless")


@given(st.integers(0, 9999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_iso_and_words_say_the_same(days: int, hours: int, minutes: int, seconds: int) -> None:
    expected = ((days * 24 + hours) * 60 + minutes) * M + seconds * S
    assert Duration().parse("d", f"P{days}DT{hours}H{minutes}M{seconds}S") == expected
    assert Duration().parse("d", f"{days} days {hours}h {minutes} min {seconds}s") == expected


def test_true_and_false() -> None:
    assert [TrueFalse().parse("f", value) for value in ("true", "FALSE", True, False)] == [True, False, True, False]
    for value in ("yes", "", 1, None):
        with pytest.raises(ConfigurationError, match=r"option f: got .*expected true or false"):
            TrueFalse().parse("f", value)
