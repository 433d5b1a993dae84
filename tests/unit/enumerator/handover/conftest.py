"""Makes the scripted timelines importable for this folder's tests."""

from __future__ import annotations

import pathlib
import sys

TESTS = pathlib.Path(__file__).parents[3]
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))
