"""docs/reference/proto.md, from proto/v1/*.proto as protoc reads them, comments included."""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from penstock.enumerator.server.auth.acl import NEEDED
from reference.rendering import Page, code, described, sentence, table

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "proto" / "v1"
HEAD = """The contract between an enumerator and its readers. Changes are additive only: a field keeps its number and
its meaning, and what is new is absent in old messages. Once callers are told apart, each call needs the right of its
row ([rights](../operations.md#rights)). Calls need a deadline of at most an hour. What failures look like:
[errors](errors.md#over-grpc).

"""
_MESSAGES, _SERVICES, _FIELDS = 4, 6, 2
"""Numbers of the fields of FileDescriptorProto and DescriptorProto that lead to what a comment is about."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, and its comments by place."""

    descriptor: Any
    comments: dict[tuple[int, ...], Any]

    def comment(self, *place: int) -> str:
        """What stands in front of it or behind it."""
        found = self.comments.get(place)
        return (found.leading_comments.strip() or found.trailing_comments.strip()) if found else ""

    def heading(self, *place: int) -> str:
        """The title of the part of the file that begins here; empty: none does."""
        found = self.comments.get(place)
        told = " ".join(found.leading_detached_comments).split() if found else []
        title = re.fullmatch(r"--- (.*?)(?: ---)?", " ".join(told))
        return title[1].removesuffix("---").strip() if title else ""


def page() -> Page:
    """The page."""
    files = list(read())
    body = HEAD + "".join(calls(file) for file in files)
    for file in files:
        common = common_fields(file)
        body += shared(file, common)
        body += "\n## Messages: plans and splits\n"
        for number, message in enumerate(file.descriptor.message_type):
            heading = file.heading(_MESSAGES, number)
            body += f"\n## Messages: {heading}\n" if heading else ""
            body += described_message(file, number, message, common)
    about = "the gRPC service: calls, rights, messages and fields"
    return Page("proto", "The gRPC service", about, "proto/v1/penstock.proto", body)


def read() -> Iterator[File]:
    """The files of the contract."""
    names = sorted(path.name for path in FOLDER.glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "set"
        options = ["--include_source_info", f"--descriptor_set_out={target}"]
        if protoc.main(["protoc", f"-I{FOLDER}", *options, *names]) != 0:
            raise SystemExit("protoc failed: see its message above")
        found = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    for file in found.file:
        yield File(file, {tuple(each.path): each for each in file.source_code_info.location})


def calls(file: File) -> str:
    """The calls of the file's services."""
    text = ""
    for number, service in enumerate(file.descriptor.service):
        text += f"## {file.descriptor.package}.{service.name}\n\n{file.comment(_SERVICES, number)}\n\n"
        rows = []
        for place, method in enumerate(service.method):
            doc = described(f"call {method.name}", file.comment(_SERVICES, number, 2, place))
            needed = NEEDED[method.name]
            right = f"{code(needed.right)} on {needed.of.value}"
            rows.append((code(method.name), linked(method.input_type), linked(method.output_type), right, doc))
        text += table(("call", "request", "answer", "right", "what it does"), rows) + "\n"
    return text


def common_fields(file: File) -> dict[str, str]:
    """Fields that every request has, with what the first that tells says of them."""
    requests = [
        (number, message)
        for number, message in enumerate(file.descriptor.message_type)
        if any(
            message.name in method.input_type.split(".") for each in file.descriptor.service for method in each.method
        )
    ]
    names = set.intersection(*({field.name for field in message.field} for _, message in requests))
    found: dict[str, str] = {}
    for number, message in requests:
        for place, field in enumerate(message.field):
            told = file.comment(_MESSAGES, number, _FIELDS, place)
            if field.name in names and told:
                found.setdefault(field.name, f"{code(field.name)} ({field.number}, {kind(message, field)}): {told}")
    for name in names - found.keys():
        described(f"field {name} of every request", "")
    return found


def shared(file: File, common: dict[str, str]) -> str:
    """What every request has."""
    return "## Every request\n\n" + "".join(f"- {text}\n" for _, text in sorted(common.items()))


def described_message(file: File, number: int, message: Any, common: dict[str, str]) -> str:
    """One message."""
    doc = sentence(described(f"message {message.name}", file.comment(_MESSAGES, number)))
    rows = []
    for place, field in enumerate(message.field):
        if field.name in common and message.name.endswith("Request"):
            continue
        told = described(f"field {message.name}.{field.name}", file.comment(_MESSAGES, number, _FIELDS, place))
        rows.append((code(field.name), str(field.number), kind(message, field), told))
    text = f"\n### {message.name}\n\n{doc}\n"
    return text + ("\n" + table(("field", "number", "type", "what it holds"), rows) if rows else "")


def kind(message: Any, field: Any) -> str:
    """The field's type, and how often it is there."""
    proto = descriptor_pb2.FieldDescriptorProto
    entry = next(
        (each for each in message.nested_type if field.type_name.endswith(f".{message.name}.{each.name}")), None
    )
    if entry is not None:
        key, value = entry.field
        return f"map of {scalar(key)} to {scalar(value)}"
    told = linked(field.type_name) if field.type_name else scalar(field)
    if field.label == proto.LABEL_REPEATED:
        return f"list of {told}"
    if field.proto3_optional:
        return f"{told}, optional"
    if field.HasField("oneof_index"):
        return f"{told}, one of {code(message.oneof_decl[field.oneof_index].name)}"
    return told


def scalar(field: Any) -> str:
    """The name of a plain type, as in the file."""
    name: str = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()


def linked(type_name: str) -> str:
    """A message's name, leading to it."""
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})"
