"""The sample of parameter sets that `make test` runs; `make test-all` runs the others.

A test function with many parameter sets keeps a few of them in the sample, chosen by the hash of their ids, so that the
choice changes neither with the order nor with other parameter sets. The others get the marker `exhaustive`. The marker
`sampled(n)` gives a function another number; `sampled(n, rest=m)` leaves m of the others to `make test-all`, and all
beyond them to `make long`: parameter sets that take long, and of which a few show the same. Without it, a function
whose tests need a JVM leaves none to `make test-all`, because each of them takes seconds.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import pytest

from tools.run_suites import MARKERS_WITH_JVM

PARAMETER_SETS: Final = 2
"""Parameter sets of a function in the sample, unless its marker `sampled` says otherwise."""


def mark_exhaustive(items: Sequence[pytest.Item]) -> None:
    """Marks the parameter sets outside the sample of their function `exhaustive`, those beyond `rest` also `long`."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    if changing := [item.nodeid for item in items if " object at 0x" in item.nodeid]:
        raise pytest.UsageError(f"ids that differ in each process, so that no sample is stable: {changing[:3]}")
    for item in items:
        if item.get_closest_marker("long"):
            continue  # it is in neither
        functions[item.nodeid.partition("[")[0]].append(item)
    for parameter_sets in functions.values():
        marker = parameter_sets[0].get_closest_marker("sampled")
        size = marker.args[0] if marker else PARAMETER_SETS
        others = sorted(parameter_sets, key=_hash)[size:]
        rest = marker.kwargs.get("rest") if marker else None
        if rest is None and any(_needs_jvm(item) for item in parameter_sets):
            rest = 0
        for item in others:
            item.add_marker(pytest.mark.exhaustive)
        for item in [] if rest is None else others[rest:]:
            item.add_marker(pytest.mark.long)


def _needs_jvm(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in MARKERS_WITH_JVM)


def _hash(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode())
