"""Hides the traceback of an error of Penstock that leaves one of Spark's Python processes.

Spark shows the user the whole traceback of such a process, with the sentence of the error as its last line. The text of
a `PenstockError` says what failed and what to do, so Spark shows only this text. Every other exception, also
`InvariantViolation`, keeps its traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""PySpark reads this variable when an exception has left the source, and writes its text to the JVM. The process ends
after that, so the variable affects no later error."""
_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"
"""Spark gives its Python processes variables with this prefix: the secret or the path of their socket."""


@contextmanager
def hidden_traceback() -> Iterator[None]:
    """Around every call that Spark makes in its Python processes, also as a decorator. In other processes, and where
    the user has set SPARK_HIDE_TRACEBACK (an empty value keeps tracebacks), it has no effect."""
    try:
        yield
    except Exception as error:
        from penstock.proto.errors import PenstockError

        if isinstance(error, PenstockError) and any(name.startswith(_OF_WORKERS) for name in os.environ):
            os.environ.setdefault(HIDE_TRACEBACK, "1")
        raise
