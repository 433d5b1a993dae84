"""The standard streams of the `penstock` process when a caller has closed them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def open_closed_streams() -> None:
    """Opens /dev/null for a stream that was closed before Python started (`>&-`); Python sets such a stream to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def stdout_closed() -> int:
    """Ends after the reader of stdout closed it, which is not an error. The flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
