"""Ports of loopback for servers that stop and start again at the same address.

They are below the range from which the system assigns ports: while a server is stopped, no other process gets its port
by chance. (Spark's JVM did once: a gRPC client that was reconnecting to its server then sent data to it, and Spark used
the first four bytes as a length, 1.3 GB of its heap.)
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
    """Different ports without a listener."""
    drawn = random.SystemRandom()
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for _ in range(TRIES):
            if len(ports) == count:
                return ports
            one = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", drawn.randint(LOWEST, HIGHEST)))
                ports.append(int(one.getsockname()[1]))
    raise AssertionError(f"no {count} free ports from {LOWEST} to {HIGHEST}")


def free_port() -> int:
    """A port without a listener."""
    return free_ports(1)[0]
