"""Which numbers of buckets fit the keys that a table's file groups hold. Hudi stores no number of buckets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt
from typing import Final

import numpy as np

from penstock.table.files.buckets import bucket_of_file_id

LIKELY_BUCKETS: Final = 100_000
"""A random file id begins with 8 digits below it once in 50,000 times."""


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """The numbers of buckets by which each key is in the bucket of its file group."""

    least: int
    """No number below it: the highest bucket of a file group, plus one."""
    divisor: int
    """A number divides it: the greatest common divisor of hash minus bucket, of all keys. 0 without keys, or if each
    hash is itself the bucket: then any number from `least` on fits."""

    def fits(self, buckets: int) -> bool:
        """Whether a number fits."""
        return buckets >= self.least and self.divisor % buckets == 0

    def only(self) -> int | None:
        """The number, if exactly one fits."""
        numbers = self._divisors()
        return numbers[0] if len(numbers) == 1 else None

    def some(self) -> bool:
        """Whether any likely number fits."""
        return self.least <= LIKELY_BUCKETS and (self.divisor == 0 or bool(self._divisors()))

    def _divisors(self) -> list[int]:
        """The numbers that fit, if they are few."""
        if not self.divisor:
            return []
        small = [number for number in range(1, isqrt(self.divisor) + 1) if self.divisor % number == 0]
        return sorted({one for number in small for one in (number, self.divisor // number) if one >= self.least})


def bucket_counts(groups: Iterable[tuple[str, np.ndarray]]) -> BucketCounts | None:
    """The numbers of buckets that fit these file groups: (file id, hashes of some of its keys by `key_hashes`). None if
    a file id does not begin with the number of a bucket."""
    least, divisor = 1, 0
    for file_id, hashes in groups:
        bucket = bucket_of_file_id(file_id)
        if bucket is None:
            return None
        least = max(least, bucket + 1)
        divisor = int(np.gcd.reduce(np.abs(hashes - bucket), initial=divisor))
    return BucketCounts(least, divisor)
