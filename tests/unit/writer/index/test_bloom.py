"""Files that a bloom index reads, by their footers."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.parquet.bloom_filter import FILTER_KEY, BloomFilter
from penstock.table.parquet.key_range import MAX_KEY, MIN_KEY, key_range
from penstock.writer.index.bloom import SearchedKeys
from penstock.writer.kernels.bloom import set_key_bits

TEXTS = st.text(min_size=1, max_size=4) | st.text("a\ud7ff\ue000\uffff😀", min_size=1, max_size=3)


def footer_of(keys: list[str], **changed: str) -> dict[bytes, bytes]:
    """The footer of a file with these keys."""
    bloom = BloomFilter.for_keys(len(keys))
    bloom.add(pa.array(keys, pa.string()), set_key_bits)
    low, high = key_range(pa.array(keys, pa.string()))
    texts = {**bloom.footer(), MIN_KEY: low, MAX_KEY: high} | changed
    return {key.encode(): value.encode() for key, value in texts.items() if value is not None}


def searched(*keys: str) -> SearchedKeys:
    return SearchedKeys([pa.array([key], pa.string()) for key in keys[:1]] + [pa.array(keys[1:], pa.string())])


@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(TEXTS, max_size=6))
def test_file_with_a_key_is_never_excluded(stored: list[str], others: list[str]) -> None:
    assert searched(*others, stored[-1]).may_be_in(footer_of(stored))
    assert searched(*others).may_be_in(footer_of(stored)) == bool(set(others) & set(stored))


def test_range_and_filter_exclude_files() -> None:
    keys = searched("k5", "b")
    assert not keys.may_be_in(footer_of(["c", "d"])), "no key is in the range"
    assert not keys.may_be_in(footer_of(["a", "x"])), "the filter has none of them"
    assert keys.may_be_in(footer_of(["a", "k5"]))


def test_footer_without_range_or_filter_excludes_nothing() -> None:
    footer = footer_of(["a", "x"])
    without_filter = {key: value for key, value in footer.items() if key != FILTER_KEY.encode()}
    assert searched("k5").may_be_in(without_filter)
    assert not searched("z").may_be_in(without_filter), "it has a range"
    without_range = {key: value for key, value in footer_of(["k5"]).items() if key.decode() not in (MIN_KEY, MAX_KEY)}
    assert searched("k5").may_be_in(without_range) and not searched("k6").may_be_in(without_range)
    assert searched("k5").may_be_in({})


def test_wrong_range_or_filter_hides_a_key() -> None:
    """Negative control: the answers come from the footer."""
    assert not searched("k5").may_be_in(footer_of(["k5"], **{MAX_KEY: "k4", MIN_KEY: "a"}))
    assert not searched("k5").may_be_in(footer_of(["k5"], **{FILTER_KEY: BloomFilter.for_keys(1).encoded()}))


def test_nothing_is_searched_without_keys() -> None:
    assert not SearchedKeys([]).may_be_in({})
