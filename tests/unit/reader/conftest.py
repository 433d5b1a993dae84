"""The reader's tests import the oracle as `oracle.…`, and `slices` from this folder."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parents[1], HERE):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
