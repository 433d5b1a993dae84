"""The names and epochs under which writers call a server.

A write of one process alone has a name that no other write has. A writer that is started again has a stable name and
higher epochs, so that it fences the process before it, which may still run.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import uuid
from collections.abc import Iterator
from typing import Final

from penstock.proto.model.names import sanitized_name

EPOCH_BITS: Final = 10
"""Epochs are milliseconds times 2^EPOCH_BITS: a process that starts later has higher ones, also if the one before
counted up for each of its writes. They stay below 2^53."""


def new_owner() -> str:
    """A name that no other write has, with machine and process for operators."""
    return sanitized_name(f"{socket.gethostname()[:80]}-{os.getpid()}-{uuid.uuid4().hex[:12]}")


def stable_owner(kind: str, name: str) -> str:
    """The name of a writer that may be started again: the same for each of its processes, and for no other writer."""
    return sanitized_name(f"{kind}-{name[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}")


def owner_of_stream(name: str) -> str:
    """The owner of the writes of a Spark stream."""
    return stable_owner("stream", name)


def epochs_from(start_ms: int) -> Iterator[int]:
    """The epochs of a process that started at this time, one for each of its writes."""
    return itertools.count(start_ms << EPOCH_BITS)
