"""Stored inputs: for each decoder and each kind of result, the smallest input.

`python -m tests.fuzz.stored_inputs SEEDS` judges as many seeds of each decoder and writes `stored_inputs.txt` again.
Each line is an input: [decoder, outcome, context, bytes] as JSON, compressed and in Base85. Stored inputs keep their
outcome when a grammar changes.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import sys
import zlib
from typing import Any

FILE = pathlib.Path(__file__).parent / "stored_inputs.txt"
_LARGEST = 8000
_MOST = 14
"""Maximum number of inputs of a decoder."""


def packed(decoder: str, outcome: str, context: Any, data: bytes) -> str:
    """An input as a line."""
    text = json.dumps([decoder, outcome, context, base64.b85encode(data).decode()], separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def stored_inputs() -> list[tuple[str, str, Any, bytes]]:
    """(decoder, outcome, context, bytes) of each."""
    inputs = []
    for line in FILE.read_text().splitlines():
        decoder, outcome, context, data = json.loads(zlib.decompress(base64.b85decode(line)))
        inputs.append((decoder, outcome, context, base64.b85decode(data)))
    return inputs


def _of_decoder(decoder: Any, seeds: int) -> list[str]:
    from tests.fuzz.grammar import case_of
    from tests.fuzz.structured import outcome_of

    smallest: dict[str, tuple[int, str]] = {}
    for seed in range(seeds):
        case, whole = case_of(decoder, seed)
        if len(case.data) > _LARGEST:
            continue
        outcome, text = outcome_of(decoder, case.data, case.context)
        variant = f"{outcome} {whole}" if outcome == "answer" else re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"", "", text)[-120:]
        line = packed(decoder.name, outcome, case.context, case.data)
        smallest[variant] = min(smallest.get(variant, (len(line), line)), (len(line), line))
    return [line for _, line in sorted(smallest.values())[:_MOST]]


def main() -> None:
    """Writes the file again from grammars."""
    from tests.fuzz.structured import DECODERS

    lines = [line for decoder in DECODERS.values() for line in _of_decoder(decoder, int(sys.argv[1]))]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
