"""A plain writer, a process of its own, that writes a table through a server again and again.

Arguments: the server's address, its number, how many writes. For each write it prints one line of JSON, `[write, end]`:
`accepted`, `refused`, or `unknown` if the answer to its commit did not come.
"""

from __future__ import annotations

import json
import sys

import penstock
from penstock.proto.errors import Fenced, PenstockError, StorageError, WriteConflict
from tests.interop.test_writes import Row, table_of

CITIES = ("oslo", "rom", "riga")


def rows_of(writer: int, write: int) -> list[Row]:
    """The rows of a write: two keys of its own in a partition that all writers share, and one of the writer."""
    city = CITIES[(writer + write) % len(CITIES)]
    new: list[Row] = [(f"w{writer}-{write}-{place}", write + 1, place, city) for place in range(2)]
    return [*new, (f"own-{writer}", write + 1, 100 * writer + write, CITIES[writer % len(CITIES)])]


def main(server: str, writer: int, writes: int) -> None:
    """Writes until the number of writes is accepted, each write once: a write that is refused gives no row."""
    for write in range(writes):
        try:
            penstock.write("trip", table_of(rows_of(writer, write)), server=server)
            end = "accepted"
        except (Fenced, WriteConflict):
            end = "refused"
        except StorageError as error:
            end = "unknown" if "has no answer" in str(error) else "refused"
        except PenstockError as error:
            end = f"failed: {error}"
        print(json.dumps([write, end]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
