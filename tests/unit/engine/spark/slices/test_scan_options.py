"""Splits and descriptions survive as options of Spark, and a damaged or hostile option is refused within its bound."""

from __future__ import annotations

import base64
import dataclasses
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from penstock.engine.spark.slices.scan_options import PLANNED, ScanDescription, as_option, planned_slots
from penstock.errors import ConfigurationError
from penstock.proto.codec.serialized import decode_scan, decode_split
from tests.unit.engine.spark.slices.test_divide import LOG, SCAN, a_split

SPLITS = [a_split("a"), a_split("b", logs=(LOG,))]


def packed(content: bytes, tail: bytes = b"") -> str:
    return base64.b64encode(zlib.compress(content, 9) + tail).decode()


def option(*splits: str, **limits: int) -> str:
    text = as_option(SCAN, [a_split(name) for name in splits], 1, 0, **limits)
    assert text is not None
    return text


def test_splits_survive_as_an_option() -> None:
    text = as_option(dataclasses.replace(SCAN, base_path="s3://key:secret@bucket/t"), SPLITS, 1, 0)
    assert text is not None
    others, slots = planned_slots({"path": "/lake/t", PLANNED.upper(): text})
    assert others == {"path": "/lake/t"}
    assert slots is not None
    assert [decode_split(data) for slot in slots for data in slot.splits] == SPLITS
    assert decode_scan(slots[0].scan).base_path == "s3://bucket/t"
    assert planned_slots({"path": "/lake/t"}) == ({"path": "/lake/t"}, None)
    assert planned_slots({PLANNED: option()})[1] == []


@pytest.mark.parametrize("change", [lambda text: "", lambda text: "x", lambda text: text[:-8], lambda text: text[8:]])
def test_damaged_option_is_refused(change: Callable[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match="written by Penstock alone"):
        planned_slots({PLANNED: change(option("a", "b"))})


def test_bomb_is_refused_and_decompressed_only_up_to_the_bound() -> None:
    bomb = packed(bytes(64 << 20))
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ConfigurationError, match="more than 1048576 bytes"):
            planned_slots({PLANNED: bomb}, max_bytes=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20, f"{peak} bytes"


def test_option_followed_by_other_bytes_is_refused() -> None:
    content = zlib.decompress(base64.b64decode(option("a")))
    assert planned_slots({PLANNED: packed(content)})[1]
    with pytest.raises(ConfigurationError, match="followed by something else"):
        planned_slots({PLANNED: packed(content, b"x")})


def test_splits_beyond_the_bound_are_no_option_and_those_at_it_are() -> None:
    size = len(zlib.decompress(base64.b64decode(option("a", "b"))))
    assert planned_slots({PLANNED: option("a", "b", max_bytes=size)}, size)[1]
    assert as_option(SCAN, [a_split("a"), a_split("b")], 1, 0, max_bytes=size - 1) is None


def test_description_survives_as_an_option() -> None:
    description = ScanDescription("id", {"path": "/lake/t", "where": 'a = "ü"'}, 3, 2)
    assert ScanDescription.of(description.as_option()) == description
