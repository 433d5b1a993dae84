"""Bloom filters in their text: the bits of keys are those of the decoded filter, and damaged texts."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.parquet.bloom_filter import DYNAMIC, SIMPLE, BloomFilter, parse_bloom_filter
from penstock.table.parquet.encoded_bloom_filter import EncodedBloomFilter
from penstock.table.parquet.key_bits import key_bits
from penstock.writer.kernels.bloom import find_key_bits, set_key_bits


def bloom(keys: list[str], *, grows: bool) -> BloomFilter:
    made = BloomFilter.growing(50, 100) if grows else BloomFilter.for_keys(len(keys))
    made.add(pa.array(keys, pa.string()), set_key_bits)
    return made


def encoded(made: BloomFilter) -> EncodedBloomFilter:
    return EncodedBloomFilter(made.encoded().encode(), made.type_code, "f")


@pytest.mark.parametrize("grows", [False, True])
def test_a_filter_has_its_keys_and_no_others(grows: bool) -> None:
    """Keys of all sizes together, some with bytes that are negative in Java, in several rows."""
    keys = [f"{'é' * (number % 3)}{number}" for number in range(200)]
    made = bloom(keys, grows=grows)
    assert len(made.rows) == (2 if grows else 1)
    of_file = encoded(made)
    for number, key in enumerate(keys[:20]):
        others = [f"absent-{number}", f"k{number}"]
        assert of_file.may_contain_any(key_bits([*others, key], made.hashes, made.bits))
        assert not of_file.may_contain_any(key_bits(others, made.hashes, made.bits))
    assert not of_file.may_contain_any(key_bits([], made.hashes, made.bits))


@given(st.lists(st.text(max_size=8), max_size=70), st.lists(st.text(max_size=8), max_size=5), st.booleans())
def test_each_bit_is_that_of_the_decoded_filter(keys: list[str], others: list[str], grows: bool) -> None:
    made = bloom(keys, grows=grows)
    of_file = encoded(made)
    searched = [*keys[:3], *others]
    may_be = made.may_contain(pa.array(searched, pa.string()), np.arange(len(searched)), find_key_bits)
    for key, expected in zip(searched, may_be.tolist(), strict=True):
        assert of_file.may_contain_any(key_bits([key], made.hashes, made.bits)) is expected


@pytest.mark.parametrize("extra", [0, 1, 2, 3])
def test_each_bit_alone(extra: int) -> None:
    """With each padding of base64: the filter's last bytes share a group with it."""
    bits = 64 + 8 * extra
    for bit in range(bits):
        row = np.zeros(bits // 8, np.uint8)
        row[bit >> 3] = 1 << (bit & 7)
        of_file = encoded(BloomFilter(1, bits, [row]))
        assert [n for n in range(bits) if of_file.may_contain_any(np.array([[n]]))] == [bit]


@given(st.data(), st.sampled_from([SIMPLE, DYNAMIC]))
def test_a_damaged_text_is_refused_or_has_the_keys_of_the_decoded_filter(data: st.DataObject, type_code: str) -> None:
    text = bytearray(bloom(["a", "b"], grows=type_code == DYNAMIC).encoded().encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        of_file = EncodedBloomFilter(bytes(text), type_code, "f")
    except CorruptFile:
        return
    try:
        decoded = parse_bloom_filter(text.decode("ascii"), type_code, "f")
    except (CorruptFile, UnicodeDecodeError):
        return
    for key in ("a", "b", "c"):
        (expected,) = decoded.may_contain(pa.array([key]), np.arange(1), find_key_bits).tolist()
        actual = of_file.may_contain_any(key_bits([key], decoded.hashes, decoded.bits))
        assert actual is (expected or not decoded.rows)


def test_a_character_that_is_not_base64_says_nothing() -> None:
    made = bloom(["a"], grows=False)
    text = bytearray(made.encoded().encode())
    bits = key_bits(["absent"], made.hashes, made.bits)
    assert not EncodedBloomFilter(bytes(text), SIMPLE, "f").may_contain_any(bits)
    text[-40:-4] = b"!" * 36
    last = np.array([[made.bits - 100]])
    assert EncodedBloomFilter(bytes(text), SIMPLE, "f").may_contain_any(last)


@pytest.mark.parametrize(
    "text", [b"", b"AAA", b"A===", b"====", b"AA=AAAAA", b"\xff" * 8, base64.b64encode(b"\0" * 40)]
)
@pytest.mark.parametrize("type_code", [SIMPLE, DYNAMIC, ""])
def test_other_texts_are_refused(text: bytes, type_code: str) -> None:
    with pytest.raises(CorruptFile, match=r"^f: bloom filter"):
        EncodedBloomFilter(text, type_code, "f")


@pytest.mark.parametrize(("rows", "keys", "hashes"), [(100, 1_000, 1_000), (100_000, 1, 1)])
def test_a_filter_with_too_many_bits_may_contain_every_key(rows: int, keys: int, hashes: int) -> None:
    of_file = encoded(BloomFilter(1, 8, [np.zeros(1, np.uint8)] * rows, entries=1))
    assert of_file.may_contain_any(np.zeros((keys, hashes), np.int64))
    few = encoded(BloomFilter(1, 8, [np.zeros(1, np.uint8)] * 100, entries=1))
    assert not few.may_contain_any(np.zeros((1, 30), np.int64))
