"""Calls to a server over the wire, with its responses, as recorded in a file: one JSON object per line.

Only the protocol's generated modules are imported, so that any release can make a recording, and any later one replay
it. A line is a call (`call`, `request`, `answer`) or a step of the test (`step`, with its arguments).
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from penstock.proto.v1 import penstock_pb2, penstock_pb2_grpc

Json = dict[str, Any]

TABLES: Final = {
    "orders": "C_v6_streamer",
    "trips": "B_v9_inc_mor",
    "older": "B_v6_inc_mor",
    "changes": "B_v9_cdc_mor_data_before_after",
}
"""Name -> golden table."""
URI: Final = "s3://lake/"
"""Tables have the same address on every machine, because ids of splits contain it."""
STREAMS: Final[dict[str, dict[str, str]]] = {
    "incremental": {"path": f"{URI}trips", "after": "earliest", "maxCommitsPerTrigger": "1"},
    "incremental-layout-1": {"path": f"{URI}older", "after": "earliest", "maxFilesPerTrigger": "1"},
    "snapshot-first": {"path": f"{URI}trips", "maxFilesPerTrigger": "1"},
    "cdc": {"path": f"{URI}changes", "query": "cdc", "after": "earliest", "maxCommitsPerTrigger": "2"},
    "hybrid-append": {
        "path": f"{URI}orders", "hybrid": "append", "kafka.topic": "orders", "kafka.bootstrap.servers": "scripted",
        "maxRowsPerTrigger": "4",
    },
    "hybrid-changelog": {
        "path": f"{URI}orders", "hybrid": "changelog", "kafka.topic": "orders", "kafka.bootstrap.servers": "scripted",
    },
}  # fmt: skip
"""Spark streams -> their options."""

_BY_THE_CLOCK: Final = ("seconds", "loss_seconds")
"""Fields of a group's lag that depend on the time of the call."""


class Wire:
    """A client of one server that speaks JSON."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = penstock_pb2_grpc.EnumeratorServiceStub(self._channel)

    def call(self, name: str, request: Mapping[str, Any]) -> Json:
        """The response, or `{"error": STATUS}`."""
        message = ParseDict(dict(request), getattr(penstock_pb2, f"{name}Request")())
        try:
            answer = getattr(self._stub, name)(message, timeout=120)
        except grpc.RpcError as error:
            return {"error": error.code().name}
        plain: Json = MessageToDict(answer, preserving_proto_field_name=True)
        for field in _BY_THE_CLOCK:
            plain.get("lag", {}).pop(field, None)
        return plain

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()


class Recording:
    """Makes calls and steps, and records them as lines."""

    def __init__(self, call: Callable[[str, Mapping[str, Any]], Json], step: Callable[[Json], None]) -> None:
        self._call, self._step = call, step
        self.lines: list[Json] = []

    def call(self, name: str, **request: Any) -> Json:
        """The response of a call."""
        answer = self._call(name, request)
        self.lines.append({"call": name, "request": request, "answer": answer})
        return answer

    def step(self, name: str, **arguments: Any) -> None:
        """A step other than a call, such as `restart`."""
        line = {"step": name, **arguments}
        self.lines.append(line)
        self._step(line)

    def write(self, path: pathlib.Path) -> None:
        """Writes the compressed file; equal lines give equal bytes."""
        text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.lines)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


def batch_rows(table: Any) -> list[str]:
    """The rows of a micro-batch as sorted JSON texts."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


def read_lines(path: pathlib.Path) -> list[Json]:
    """The lines of a recording."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
