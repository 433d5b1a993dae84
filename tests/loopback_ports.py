"""Ports of loopback for servers that go away and come back at the same address.

They lie below the range from which the system takes ports for those who ask for any: while a server is away, nobody
else gets its port by chance. (Spark's JVM did once: a gRPC client that looked for its server then spoke to it, and
Spark took the first four bytes for a length, 1.3 GB of its heap.)
"""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

LOWEST: Final = 20_000
HIGHEST: Final = 32_000
TRIES: Final = 1000


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now."""
    drawn = random.SystemRandom()
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for _ in range(TRIES):
            if len(found) == count:
                return found
            one = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", drawn.randint(LOWEST, HIGHEST)))
                found.append(int(one.getsockname()[1]))
    raise AssertionError(f"no {count} free ports from {LOWEST} to {HIGHEST}")


def free_port() -> int:
    """A port that nobody listens on now."""
    return free_ports(1)[0]
