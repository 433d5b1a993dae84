"""Numbers as Java writes them, against what Java 17 printed."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.values import java_text as java_texts
from penstock.reader.values.java_text import float_texts, java_text, rounded_decimals

PRINTED = [
    ("c3d31f8695e1f323", "-5.5118719571908721E18"),
    ("c38682a39a129c56", "-2.02754837242415808E17"),
    ("437accd2e380cc44", "1.20696888424711232E17"),
    ("438a4a88fd03457d", "2.36809651690712992E17"),
    ("fff2366ce7e88039", "NaN"),
    ("43b05a7975bc7c87", "1.17838779909121818E18"),
    ("c3b57c3b4fb6c83e", "-1.54817758546363955E18"),
    ("43b0f5daf70d4519", "1.22212362851536717E18"),
    ("c3716de71d2828b1", "-7.8494623970003728E16"),
    ("c374181110c4c650", "-9.0495377744880896E16"),
    ("43755dd8f0813570", "9.6226573443880704E16"),
    ("c3d792dc329377fb", "-6.7946484770107505E18"),
    ("4374d50d71446873", "9.3820051933005616E16"),
    ("c3744b7db93f4b59", "-9.1400046162261392E16"),
    ("Fdd91e122", "-1.31396505E18"),
    ("Ffffbe1e1", "NaN"),
    ("F51a2aa30", "8.7329997E10"),
    ("F50534c68", "1.41799997E10"),
    ("F5e39f746", "3.35006405E18"),
    ("F52de32f1", "4.77168697E11"),
    ("F5283ac82", "2.82767458E11"),
    ("F5357407e", "9.2449997E11"),
    ("F57323854", "1.95954997E14"),
    ("Fddab2da7", "-1.54183732E18"),
    ("F55483f4e", "1.37608886E13"),
    ("F5283156a", "2.81499992E11"),
    ("e30565660998ab41", "-1.0093504121835115E169"),
    ("F4bb8c8b0", "2.422E7"),
    ("3f40a7f68738f776", "5.08304E-4"),
    ("1347489c99986bed", "8.442751071112E-216"),
    ("F347b5ceb", "2.341E-7"),
    ("a1f86158be8336e3", "-4.8811307160699454E-145"),
    ("F388a697b", "6.6E-5"),
    ("F4e47a6d7", "8.374E8"),
    ("42b834e320d47cdd", "2.6615427945596863E13"),
    ("98ec0f6ccd6bdfd2", "-1.259575847494598E-188"),
    ("F49330740", "733300.0"),
    ("Fe8e2a083", "-8.561726E24"),
    ("42861d9f27100000", "3.03956E12"),
    ("fb9e703d9f7f548", "6.517235473062699E-233"),
    ("44c52d02c7e14af6", "1.9999999999999998E23"),
    ("44b52d02c7e14af6", "9.999999999999999E22"),
    ("447c7e83209e90b2", "8.409999999999999E21"),
    ("3f60624dd2f1a9fc", "0.002"),
    ("1", "4.9E-324"),
    ("10000000000000", "2.2250738585072014E-308"),
    ("3d30000000000000", "5.6843418860808015E-14"),
    ("44b52d02c7e14af6", "9.999999999999999E22"),
    ("4", "2.0E-323"),
    ("16", "1.1E-322"),
]
"""Bits (F: of a 32-bit float) and the text of `Double.toString` or `Float.toString`, Java 17."""


def number(bits: str) -> float:
    if bits.startswith("F"):
        return struct.unpack(">f", int(bits[1:], 16).to_bytes(4, "big"))[0]
    return struct.unpack(">d", int(bits, 16).to_bytes(8, "big"))[0]


@pytest.mark.parametrize(("bits", "text"), PRINTED)
def test_every_digit_is_javas(bits: str, text: str) -> None:
    kind = pa.float32() if bits.startswith("F") else pa.float64()
    assert float_texts(pa.array([None, number(bits), 1e10], kind)).to_pylist() == [None, text, "1.0E10"]


def test_two_zeros_stay_apart_beside_odd_values() -> None:
    result = float_texts(pa.array([0.0, -0.0, 1e10, None, float("nan"), -0.0]))
    assert result.to_pylist() == ["0.0", "-0.0", "1.0E10", None, "NaN", "-0.0"]


@given(st.floats())
def test_text_is_the_number_again(value: float) -> None:
    text = java_text(value, single=False)
    assert text == "NaN" if math.isnan(value) else float(text.replace("Infinity", "inf")) == value


@settings(deadline=None)
@given(st.floats(0.0010000000474974513, 9999999.0, width=32))
def test_plain_numbers_have_their_shortest_text(value: float) -> None:
    quick = float_texts(pa.array([value, -value], pa.float32())).to_pylist()
    assert quick == [java_text(value, single=True), java_text(-value, single=True)]


@settings(deadline=None)
@given(st.one_of(st.floats(0.001, 9999999.999), st.floats(-9999999.999, -0.001)))
def test_plain_doubles_have_their_shortest_text(value: float) -> None:
    assert float_texts(pa.array([value])).to_pylist() == [java_text(value, single=False)]


CENTS = st.tuples(st.integers(10**9, 10**16), st.integers(0, 4)).map(lambda parts: parts[0] / 10 ** parts[1])
HALVES = st.tuples(st.integers(24, 49), st.integers(-40, 20)).map(lambda powers: 2.0 ** powers[0] + 2.0 ** powers[1])
ROUND = st.tuples(st.integers(1, 999), st.integers(7, 12)).map(lambda parts: float(parts[0] * 10 ** parts[1]))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.floats(1e7, 1e15) | CENTS | HALVES | ROUND, min_size=1), st.sampled_from([1, -1]))
def test_doubles_below_ten_to_the_fifteenth_have_javas_text_at_once(values: list[float], sign: int) -> None:
    values = [sign * value for value in values]
    result = float_texts(pa.array([0.5, None, 1e300, *values])).to_pylist()
    assert result == ["0.5", None, "1.0E300", *(java_text(value, single=False) for value in values)]


def test_doubles_below_ten_to_the_fifteenth_are_not_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_texts, "java_text", None)
    array = pa.array([1e7, 12345678.25, None, -1700000000000.0, 999999999999999.9])
    expected = ["1.0E7", "1.234567825E7", None, "-1.7E12", "9.999999999999999E14"]
    assert float_texts(array).to_pylist() == expected


@settings(deadline=None)
@given(st.text("0123456789.eE+-", max_size=12))
def test_text_is_a_decimal_or_refused(text: str) -> None:
    try:
        (result,) = rounded_decimals(pa.array([text]), pa.decimal128(12, 3)).to_pylist()
    except ValueError:
        return
    assert abs(float(result) - float(text)) <= 0.00051
