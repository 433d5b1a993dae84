"""Records numbered by key on both decoders, and by position."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock
from penstock.reader.kernels.choice import KernelChoice
from penstock.reader.merge.keys import Matches, number_keys, number_positions

KEYS = st.one_of(st.sampled_from(["", "a", "é", "ключ", "😀", "k" * 300]), st.text(max_size=20))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(KEYS, max_size=20), max_size=4), st.lists(KEYS, max_size=40), st.sampled_from([1, 3, 64]))
def test_kernel_and_arrow_number_and_match_alike(chunks: list[list[str]], base: list[str], hash_bits: int) -> None:
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    log = [key for chunk in chunks for key in chunk]
    expected = {key: place for place, key in enumerate(dict.fromkeys(log))}
    keys = pa.array(["before", *base, "after"], pa.string()).slice(1, len(base))
    for compiled in (True, False):
        table, numbers = number_keys(arrays, compiled=compiled, hash_bits=hash_bits)
        assert table.count == len(expected)
        assert numbers.tolist() == [expected[key] for key in log]
        matches = table.match(keys, 7)
        assert matches.rows.tolist() == [row for row, key in enumerate(base) if key in expected]
        assert matches.numbers.tolist() == [expected[key] for key in base if key in expected]


def test_table_begins_with_arrow_functions_and_goes_on_with_the_kernel() -> None:
    """Between two batches of a base file, with the same numbers."""
    keys = pa.array([f"k{number % 70}" for number in range(100)])
    base = pa.array([f"k{number}" for number in range(60, 80)])
    asked: list[tuple[int, int]] = []

    class Choice(KernelChoice):
        def for_keys(self, known: int, looked_up: int) -> bool:
            asked.append((known, looked_up))
            return len(asked) == 3

    table, numbers = number_keys([keys], compiled=Choice())
    expected, expected_numbers = number_keys([keys], compiled=True)
    assert numbers.tolist() == expected_numbers.tolist()
    for row_groups in (True, False, False):
        matches, wanted = table.match(base, 7), expected.match(base, 7)
        assert (matches.rows.tolist(), matches.numbers.tolist()) == (wanted.rows.tolist(), wanted.numbers.tolist())
        assert table.prefers_row_groups is row_groups
    assert asked == [(100, 0), (70, 20), (70, 20)]


def test_batch_larger_than_the_last_one_finds_room() -> None:
    table, _ = number_keys([pa.array(["a"])])
    for size in (1, 1000, 10, 5000):
        assert len(table.match(pa.array(["a"] * size), 0).rows) == size


def test_sliced_and_large_log_keys() -> None:
    keys = pa.array(["x", "a", "b", "a"]).slice(1)
    for compiled in (True, False):
        table, numbers = number_keys([keys], compiled=compiled)
        assert numbers.tolist() == [0, 1, 0]
        assert table.match(pa.array(["b", "x", "a"], pa.large_string()), 0).numbers.tolist() == [1, 0]


def test_matches_among_rows_by_position() -> None:
    table, _ = number_positions([np.array([10, 12, 14])], [pa.array(["a", "c", "e"])], "table t")
    matches = table.match_among(np.array([0, 1, 4]), pa.array(["a", "b", "c", "d", "e"]), 10)
    assert (matches.rows.tolist(), matches.numbers.tolist()) == ([0, 4], [0, 2])
    with pytest.raises(CorruptBlock):  # also of a row that is not among them
        table.match_among(np.array([0]), pa.array(["a", "b", "x", "d", "e"]), 10)


def test_matches_of_a_row_group_are_cut_to_batches() -> None:
    matches = Matches(np.array([0, 3, 4, 9]), np.array([5, 6, 7, 8]))
    cut = matches.between(3, 9)
    assert (cut.rows.tolist(), cut.numbers.tolist()) == ([0, 1], [6, 7])


def test_positions_are_numbers_and_keys_are_checked() -> None:
    table, numbers = number_positions(
        [np.array([2, 5]), np.array([0, 5])], [pa.array(["c", "f"]), pa.array(["a", "f"])], "table t"
    )
    assert (table.count, table.last_position, numbers.tolist()) == (3, 5, [1, 2, 0, 2])
    matches = table.match(pa.array(["a", "b", "c"]), 0)
    assert (matches.rows.tolist(), matches.numbers.tolist()) == ([0, 2], [0, 1])
    matches = table.match(pa.array(["d", "e", "f"]), 3)
    assert (matches.rows.tolist(), matches.numbers.tolist()) == ([2], [2])
    with pytest.raises(CorruptBlock, match=r"table t: .*rows 3 and 5"):
        table.match(pa.array(["d", "e", "another"]), 3)


def test_positions_match_selected_base_rows() -> None:
    """As they match all rows, and a record at another row of the selection, or at none of it, is detected."""
    table, _ = number_positions([np.array([0, 2, 5])], [pa.array(["a", "c", "f"])], "table t")
    selected = np.array([2, 3, 5])
    matches = table.match_among(np.array([0, 1]), pa.array(["c", "d", "f"]), selected)
    assert (matches.rows.tolist(), matches.numbers.tolist()) == ([0], [1])
    with pytest.raises(CorruptBlock, match=r"table t: .*rows 2 and 5"):
        table.match_among(np.array([0, 1]), pa.array(["c", "d", "another"]), selected)
    for chosen, is_right in ((["c", "f", "nosuch"], True), (["a"], False)):
        keys, _ = number_keys([pa.array(chosen)])
        if is_right:
            table.check_selection(keys, selected)
        else:
            with pytest.raises(CorruptBlock, match=r"rows 0 and 0"):
                table.check_selection(keys, selected)


@pytest.mark.parametrize("compiled", [True, False])
def test_table_has_the_key_of_each_number(compiled: bool) -> None:
    table, numbers = number_keys([pa.array(["b", "a", "b"]), pa.array(["c"], pa.large_string())], compiled=compiled)
    assert table.keys.take(pa.array(numbers)).to_pylist() == ["b", "a", "b", "c"]
