"""Makes the slices of the reader's tests, the oracle, the fuzzer's corpus, certificates importable for this folder."""

from __future__ import annotations

import pathlib
import sys

TESTS = pathlib.Path(__file__).parent.parent
for folder in (
    TESTS,
    TESTS / "faults",
    TESTS / "unit" / "reader",
    TESTS / "unit" / "enumerator",
    TESTS / "fuzz",
    TESTS / "golden",
):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
