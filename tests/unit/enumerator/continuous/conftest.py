"""Makes the scripted timelines importable for this folder's tests."""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[3]))
