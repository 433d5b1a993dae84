"""The limit of every wait for progress in the suites.

The outcome of a test never depends on the speed of the machine: a test waits for a condition, and fails only if it
cannot become true. The limit is below pytest's own limit of a test, so that the error names the condition.
"""

from __future__ import annotations

from typing import Final

PROGRESS_S: Final = 600.0
