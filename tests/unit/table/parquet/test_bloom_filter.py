"""Bloom filters of base files: the very text of Hudi's footers, round trips, and damaged footers."""

from __future__ import annotations

import base64
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, InvariantViolation
from penstock.table.parquet.bloom_filter import (
    DYNAMIC,
    FILTER_KEY,
    SIMPLE,
    TYPE_KEY,
    BloomFilter,
    bits_for,
    parse_bloom_filter,
)
from penstock.table.parquet.key_range import MAX_KEY, MIN_KEY, key_range
from penstock.writer.kernels.bloom import find_key_bits, set_key_bits

KEYS = st.lists(st.text(max_size=8), max_size=40)


def text_array(keys: list[str]) -> pa.StringArray:
    return pa.array(keys, pa.string())


@pytest.mark.golden
def test_footers_of_golden_tables_have_the_same_text(golden: Any) -> None:
    compared = dict.fromkeys((100, 60_000), 0)
    for case in golden.names()[::3]:
        table = golden.table(case)
        for file in islice(table.rglob("*.parquet"), 1):
            if ".hoodie" in file.relative_to(table).parts:
                continue
            footer = {key.decode(): value.decode() for key, value in (pq.read_metadata(file).metadata or {}).items()}
            if FILTER_KEY not in footer:
                continue
            decoded = parse_bloom_filter(footer[FILTER_KEY], footer[TYPE_KEY], file.name)
            assert decoded.encoded() == footer[FILTER_KEY], file
            keys = pq.read_table(file, columns=["_hoodie_record_key"])[0].combine_chunks()
            own = BloomFilter.growing(decoded.entries)
            own.add(keys, set_key_bits)
            assert own.footer() == {FILTER_KEY: footer[FILTER_KEY], TYPE_KEY: footer[TYPE_KEY]}, file
            if len(keys):
                assert key_range(keys) == (footer[MIN_KEY], footer[MAX_KEY]), file
            compared[decoded.entries] += 1
    assert min(compared.values()) > 10


@given(KEYS, st.booleans(), st.integers(1, 9))
def test_filter_is_decoded_from_its_text(keys: list[str], grows: bool, entries: int) -> None:
    bloom = BloomFilter.growing(entries, entries * 3) if grows else BloomFilter.for_keys(len(keys))
    bloom.add(text_array(keys), set_key_bits)
    decoded = parse_bloom_filter(bloom.encoded(), bloom.type_code, "f")
    assert decoded.encoded() == bloom.encoded()
    assert (decoded.bits, decoded.hashes, len(decoded.rows)) == (bloom.bits, bloom.hashes, len(bloom.rows))
    assert bloom.type_code == (DYNAMIC if grows else SIMPLE)


class ReferenceFilter:
    """Hudi `InternalDynamicBloomFilter.add`, key by key."""

    def __init__(self, entries: int, max_entries: int) -> None:
        self.rows: list[list[str]] = [[]]
        self.entries, self.max_entries = entries, max_entries
        self.current = self.turn = 0
        self.reached_max = False

    def add(self, key: str) -> None:
        if self.reached_max:
            row = self.rows[self.turn % len(self.rows)]
            self.turn += 1
        elif self.current >= self.entries and len(self.rows) * self.entries < self.max_entries:
            self.rows.append([])
            self.current = 0
            row = self.rows[-1]
        elif self.current >= self.entries:
            self.reached_max = True
            row = self.rows[0]
        else:
            row = self.rows[-1]
        row.append(key)
        self.current += 1


@given(st.lists(KEYS, max_size=4), st.integers(1, 6), st.integers(1, 20))
def test_filter_grows_as_that_of_hudi(batches: list[list[str]], entries: int, max_entries: int) -> None:
    bloom = BloomFilter.growing(entries, max_entries)
    reference = ReferenceFilter(entries, max_entries)
    for keys in batches:
        bloom.add(text_array(["x", *keys]).slice(1), set_key_bits)
        for key in keys:
            reference.add(key)
    assert len(bloom.rows) == len(reference.rows)
    assert bloom.keys_in_last_row == reference.current
    for row, keys in zip(bloom.rows, reference.rows, strict=True):
        alone = BloomFilter(bloom.hashes, bloom.bits, [row * 0])
        alone.add(text_array(keys), set_key_bits)
        assert alone.rows[0].tolist() == row.tolist()


def test_size_follows_the_number_of_keys() -> None:
    small, most, more = (BloomFilter.for_keys(keys) for keys in (1, 100_000, 1_000_000))
    assert small.bits == bits_for(64, 1e-9) and small.hashes == 30
    assert most.bits == more.bits == bits_for(100_000, 1e-9)
    assert (most.hashes, more.hashes) == (30, 3)
    assert BloomFilter.growing().bits == 2_587_966


def test_keys_that_are_null_are_refused() -> None:
    with pytest.raises(InvariantViolation):
        BloomFilter.for_keys(1).add(pa.array(["a", None]), set_key_bits)
    with pytest.raises(InvariantViolation):
        BloomFilter.for_keys(1).may_contain(pa.array(["a", None]), np.arange(2), find_key_bits)


@given(KEYS, st.lists(st.text(min_size=1, max_size=8)), st.booleans(), st.integers(1, 9))
def test_added_keys_may_be_contained(keys: list[str], others: list[str], grows: bool, entries: int) -> None:
    bloom = BloomFilter.growing(entries, entries * 3) if grows else BloomFilter.for_keys(len(keys))
    bloom.add(text_array(keys), set_key_bits)
    decoded = parse_bloom_filter(bloom.encoded(), bloom.type_code, "f")
    searched = text_array(["x", *keys, *others]).slice(1)
    may_be = decoded.may_contain(searched, np.arange(len(searched)), find_key_bits)
    assert may_be[: len(keys)].all()
    if not grows:  # its rate of false positives is 1e-9; that of the empty key, whose bits are all the same, is high
        assert may_be[len(keys) :].tolist() == [key in keys for key in others]
    assert decoded.may_contain(searched, np.zeros(0, np.int64), find_key_bits).tolist() == []


@given(st.data(), st.sampled_from([SIMPLE, DYNAMIC]))
def test_damaged_filter_is_refused_or_decoded(data: st.DataObject, type_code: str) -> None:
    bloom = BloomFilter.growing(3) if type_code == DYNAMIC else BloomFilter.for_keys(3)
    raw = bytearray(base64.b64decode(bloom.encoded()))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, min(len(raw) - 1, 40)))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    text = base64.b64encode(raw).decode()
    try:
        decoded = parse_bloom_filter(text, type_code, "file f")
    except CorruptFile as error:
        assert str(error).startswith("file f: bloom filter: ")
    else:
        assert decoded.encoded() == text


@pytest.mark.parametrize(
    ("text", "type_code"),
    [
        ("", SIMPLE),
        ("!", SIMPLE),
        ("é", SIMPLE),
        (BloomFilter.for_keys(1).encoded(), DYNAMIC),
        (BloomFilter.growing(2).encoded(), SIMPLE),
        (BloomFilter.for_keys(1).encoded(), "RIBBON"),
        (base64.b64encode(bytes.fromhex("ffffffff0000001e017fffffff")).decode(), SIMPLE),
    ],
)
def test_other_text_is_refused(text: str, type_code: str) -> None:
    with pytest.raises(CorruptFile, match="f: bloom filter"):
        parse_bloom_filter(text, type_code, "f")
