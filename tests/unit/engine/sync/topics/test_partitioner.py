"""The partition of a key, by values of Kafka's own test of `Utils.murmur2`."""

from __future__ import annotations

import numpy as np

from penstock.engine.sync.topics.partitioner import misplaced, partitions_of

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hash_is_that_of_the_java_client() -> None:
    positive = [value & 0x7FFFFFFF for value in JAVA.values()]
    for partitions in (2, 3, 7, 1000):
        assert partitions_of(list(JAVA), partitions).tolist() == [value % partitions for value in positive]


def test_misplaced_record_is_the_first_one_with_a_key() -> None:
    (own,) = partitions_of([b"abc"], 5).tolist()
    other = next(key for key in JAVA if partitions_of([key], 5)[0] != own)
    assert misplaced([b"abc", None, b"abc"], own, 5) is None
    assert misplaced([None, b"abc", other, other], own, 5) == 2
    assert misplaced([b"abc", other], 0, 1) is None
    assert misplaced([], 0, 5) is None
    assert np.all(partitions_of([b""] * 3, 4) == partitions_of([None], 4)[0])
