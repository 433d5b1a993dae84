"""Makes the catalogue and the row comparison importable for the tests of this folder."""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
