"""The limit of every wait for progress in the suites.

A verdict never depends on how fast the machine is: a test waits for what it needs, and gives up only where nothing can
come any more. Below pytest's own limit of a test, so that the wait says what did not come.
"""

from __future__ import annotations

from typing import Final

PROGRESS_S: Final = 600.0
