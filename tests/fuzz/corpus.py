"""The inputs to mutate: parts of the golden tables, by kind. The same members in the same order on every machine."""

from __future__ import annotations

import base64
import functools
import json
import pathlib
import re
import zipfile
from dataclasses import dataclass

from tests.fuzz import thrift_tree

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "tables"
MOST_BYTES = 64 << 10
MOST_MEMBERS = 14
"""Maximum number of members of a kind, spread evenly over all."""

_NAMES = {
    "log": re.compile(r"(?!.*\.crc$)(?:.*/)?\.[^/]+\.log\.\d+_[^/]*"),
    "commit": re.compile(r".*\.hoodie/.*\.(?:commit|deltacommit)"),
    "replacecommit": re.compile(r".*\.hoodie/.*\.replacecommit"),
    "compaction_plan": re.compile(r".*\.(?:log)?compaction\.requested"),
    "requested_replace": re.compile(r".*\.(?:replacecommit|clustering)\.requested"),
    "clean": re.compile(r".*\.clean"),
    "avro_record": re.compile(r".*\.(?:rollback|restore|savepoint)(?:\.requested)?"),
    "schema_history": re.compile(r".*\.schemacommit"),
    "hfile": re.compile(r".*\.hfile"),
    "manifest": re.compile(r".*/manifest_\d+"),
    "archive": re.compile(r".*/\.commits_\.archive\.\d+_[^/]*"),
    "history": re.compile(r".*\.hoodie/(?!metadata).*\.parquet"),
    "properties": re.compile(r"(?:.*/)?hoodie\.properties"),
    "parquet": re.compile(r"(?!.*\.hoodie/).*\.parquet"),
    "lance": re.compile(r".*\.lance"),
    "orc": re.compile(r"(?!\.source/).*\.orc"),  # those of sources have no schema of Avro
}


KINDS = (*_NAMES, "schema", "positions")
"""The kinds of `members`, known without reading them."""


@dataclass(frozen=True)
class Member:
    """A part of a golden table: `kind` names the target that parses it, `name` is case/path."""

    kind: str
    name: str
    data: bytes


def kind_of(path: str) -> str | None:
    """The kind of a table's file; None: no target parses it."""
    return next((kind for kind, name in _NAMES.items() if name.fullmatch(path)), None)


@functools.cache
def members() -> dict[str, list[Member]]:
    """Every member by kind."""
    members_by_kind: dict[str, list[Member]] = {kind: [] for kind in _NAMES}
    for archive in sorted(GOLDEN.glob("*.zip")):
        with zipfile.ZipFile(archive) as packed:
            for info in sorted(packed.infolist(), key=lambda item: item.filename):
                kind = kind_of(info.filename)
                if kind is None or not info.file_size or (kind != "parquet" and info.file_size > MOST_BYTES):
                    continue
                if (
                    kind == "parquet"
                    and members_by_kind[kind]
                    and members_by_kind[kind][-1].name.startswith(archive.stem)
                ):
                    continue  # one base file of each case
                data = packed.read(info)
                if kind == "parquet" and b"parquet.avro.schema" not in data:
                    continue
                members_by_kind[kind].append(
                    Member(kind, f"{archive.stem}/{info.filename}", _slim(data) if kind == "parquet" else data)
                )
    chosen = {
        kind: _spread([item for item in items if len(item.data) <= MOST_BYTES])
        for kind, items in members_by_kind.items()
    }
    chosen["schema"] = _schemas(members_by_kind["log"])
    chosen["positions"] = _positions(members_by_kind["log"])
    return chosen


def _spread(items: list[Member]) -> list[Member]:
    by_content = list({item.data: item for item in items}.values())
    step = max(1, len(by_content) // MOST_MEMBERS)
    return by_content[::step][:MOST_MEMBERS]


def _slim(data: bytes) -> bytes:
    """The file without its bloom filter, which is most of a small base file and is never read."""
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = thrift_tree.parse(data[-8 - size : -8])
    for node, _parent, _place in thrift_tree.nodes(root):
        if node.kind == thrift_tree.BINARY and len(node.value) > 20_000:
            node.value = node.value[:16]
    footer = thrift_tree.write(root)
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def log_headers(data: bytes, count: int) -> list[bytes]:
    """The values of one kind of header entry in an undamaged log file."""
    headers, at = [], 0
    while data[at : at + 6] == b"#HUDI#":
        place = at + 14 + 8
        for _ in range(int.from_bytes(data[place : place + 4], "big")):
            kind, size = (int.from_bytes(data[place + more : place + more + 4], "big") for more in (4, 8))
            if kind == count:
                headers.append(data[place + 12 : place + 12 + size])
            place += 8 + size
            if place >= len(data):
                break
        at += 14 + int.from_bytes(data[at + 6 : at + 14], "big")
    return headers


def _schemas(logs: list[Member]) -> list[Member]:
    texts = {text: log.name for log in logs for text in log_headers(log.data, 2)}
    return _spread([Member("schema", name, text) for text, name in texts.items() if text[:1] in b"{["])


def _positions(logs: list[Member]) -> list[Member]:
    texts = {text: log.name for log in logs for text in log_headers(log.data, 5)}
    return _spread([Member("positions", name, base64.b64decode(text)) for text, name in texts.items()])


def schema_of_parquet(data: bytes) -> str:
    """The Avro schema that Hudi wrote to a base file's footer."""
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = thrift_tree.parse(data[-8 - size : -8])
    pairs = (dict(pair.fields) for pair in dict(root.fields)[5].value)
    text = next(pair[2].value for pair in pairs if pair[1].value == b"parquet.avro.schema")
    return json.dumps(json.loads(text))
