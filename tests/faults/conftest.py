"""Makes the slices of the reader's tests, the oracle and the fuzzer's corpus importable for this folder's tests."""

from __future__ import annotations

import pathlib
import sys

TESTS = pathlib.Path(__file__).parent.parent
for folder in (TESTS, TESTS / "unit" / "reader", TESTS / "fuzz"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
