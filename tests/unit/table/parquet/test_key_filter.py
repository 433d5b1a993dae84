"""What a footer says about keys. A footer that cannot be read says nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.table.parquet.bloom_filter import FILTER_KEY, TYPE_KEY, BloomFilter
from penstock.table.parquet.key_filter import footer_bloom_filter, footer_key_range
from penstock.table.parquet.key_range import text_by_utf_16
from penstock.writer.kernels.bloom import set_key_bits

LOW, HIGH = b"hoodie_min_record_key", b"hoodie_max_record_key"


def test_range_is_that_of_footer() -> None:
    assert footer_key_range({LOW: b"a", HIGH: "ö".encode()}) == (b"a", text_by_utf_16("ö"))


@pytest.mark.parametrize("footer", [{}, {LOW: b"a"}, {HIGH: b"a"}, {LOW: b"\xff", HIGH: b"a"}])
def test_footer_without_range_has_none(footer: dict[bytes, bytes]) -> None:
    assert footer_key_range(footer) is None


def test_filter_is_that_of_footer() -> None:
    bloom = BloomFilter.for_keys(3)
    bloom.add(pa.array(["a"]), set_key_bits)
    footer = {key.encode(): value.encode() for key, value in bloom.footer().items()}
    decoded = footer_bloom_filter(footer)
    assert decoded is not None and decoded.encoded() == bloom.encoded()
    del footer[TYPE_KEY.encode()]
    assert footer_bloom_filter(footer) is not None, "SIMPLE without a type"


@pytest.mark.parametrize("text", [b"", b"AAAA", b"\xff", b"not base64!"])
def test_footer_without_readable_filter_has_none(text: bytes) -> None:
    assert footer_bloom_filter({FILTER_KEY.encode(): text}) is None
    assert footer_bloom_filter({}) is None


def test_filter_of_unknown_type_is_none() -> None:
    footer = {key.encode(): value.encode() for key, value in BloomFilter.for_keys(3).footer().items()}
    assert footer_bloom_filter(footer | {TYPE_KEY.encode(): b"DYNAMIC_V1"}) is None
