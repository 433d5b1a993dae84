"""What `load()` shows and refuses where a stream goes on in a topic."""

from __future__ import annotations

CASE = "A_v9_cow"
