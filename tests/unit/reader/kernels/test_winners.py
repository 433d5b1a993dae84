"""The key kernels against a dict, with collisions forced, keys of every length, and the process's own checks on."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.kernels import winners

SEEDS = np.array([0x1234, 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD], np.uint64)
KEYS = st.one_of(
    st.sampled_from([b"", b"a", b"a\0", b"\0", b"1234567", b"12345678", b"123456789", b"1234567890123456"]),
    st.binary(max_size=40),
    st.integers(0, 30).map(lambda number: f"a key beyond sixteen bytes {number}".encode()),
)


def layout(keys: list[bytes], offset_type: type[np.generic]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets that do not start at 0, as in a slice, and the bytes."""
    offsets = np.cumsum([3, *(len(key) for key in keys)]).astype(offset_type)
    data = np.frombuffer(b"???" + b"".join(keys), np.uint8)
    offsets.flags.writeable = False
    return offsets, data


def number(keys: list[bytes], hash_bits: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    offsets, data = layout(keys, np.int64)
    slots = np.full(max(16, 1 << (2 * len(keys)).bit_length()), -1, np.int64)
    bloom = np.zeros(64, np.uint64)
    first, numbers = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    keep = np.uint64(2**hash_bits - 1)
    count = winners.number_keys(offsets, data, SEEDS, keep, slots, bloom, first, numbers)
    return count, slots, bloom, first, numbers


def find(
    keys: list[bytes], distinct: list[bytes], slots: np.ndarray, bloom: np.ndarray, hash_bits: int
) -> dict[int, int]:
    offsets, data = layout(keys, np.int32)
    known = layout(distinct, np.int64)
    codes, rows = np.zeros(len(keys) + 1, np.uint64), np.zeros(len(keys) + 1, np.int64)
    result = np.zeros(len(keys) + 1, np.int64)
    keep = np.uint64(2**hash_bits - 1)
    count = winners.find_keys(offsets, data, SEEDS, keep, slots, bloom, *known, codes, rows, result)
    assert list(rows[:count]) == sorted(set(rows[:count].tolist()))
    return dict(zip(rows[:count].tolist(), result[:count].tolist(), strict=True))


@settings(max_examples=300, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=60), st.lists(KEYS, max_size=60), st.sampled_from([1, 3, 33, 64]))
def test_keys_are_numbered_and_found_as_by_a_dict(log: list[bytes], base: list[bytes], hash_bits: int) -> None:
    count, slots, bloom, first, numbers = number(log, hash_bits)
    expected = {key: place for place, key in enumerate(dict.fromkeys(log))}
    assert count == len(expected)
    assert numbers.tolist() == [expected[key] for key in log]
    assert [log[place] for place in first[:count]] == list(expected)
    expectation = {row: expected[key] for row, key in enumerate(base) if key in expected}
    assert find(base, list(expected), slots, bloom, hash_bits) == expectation


def test_hash_of_one_bit_is_slow_and_right() -> None:
    log = [f"key-{number:05d}".encode() for number in range(500)]
    _, slots, bloom, _, _ = number(log, 1)
    assert len(find(log, log, slots, bloom, 1)) == 500
    assert find([b"key-99999"], log, slots, bloom, 1) == {}


@pytest.mark.parametrize("length", [*range(20), 31, 32, 33, 100])
def test_one_byte_apart_is_another_key_wherever_it_is(length: int) -> None:
    key = bytes(range(65, 65 + length % 26)) + b"x" * (length - length % 26)
    changed = [key[:at] + b"\xff" + key[at + 1 :] for at in range(length)]
    count, *_ = number([key, *changed, key + b"\0"], 64)
    assert count == length + 2


def test_hashes_spread() -> None:
    """Keys that differ in their last digits only must not share places: the table would become a list."""
    log = [f"{number:036d}".encode() for number in range(4096)]
    _, slots, _, _, _ = number(log, 64)
    used = np.flatnonzero(slots != -1)
    longest = max(len(run) for run in np.split(used, np.flatnonzero(np.diff(used) != 1) + 1))
    assert longest < 200


@pytest.mark.exhaustive
def test_no_index_leaves_its_array(tmp_path: pathlib.Path) -> None:
    """numba's own bounds checks, in a process and with a cache of its own (a warm cache ignores the switch)."""
    program = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("t", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for bits in (1, 64):
    log = [b"k" * n for n in range(30)] + [b"k" * n for n in range(30)]
    count, slots, bloom, first, numbers = module.number(log, bits)
    assert count == 30
    assert len(module.find(log, [b"k" * n for n in range(30)], slots, bloom, bits)) == 60
    assert module.find([b"absent", b""], [b"k" * n for n in range(30)], slots, bloom, bits) == {{1: 0}}
"""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)
