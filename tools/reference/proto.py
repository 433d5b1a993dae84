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
its meaning, and new fields are absent in old messages. If the server authenticates callers, each call needs the right
of its row ([Rights](../operations.md#rights)). Calls need a deadline of at most an hour. [Errors](errors.md#over-grpc)
describes failed calls.

"""
_MESSAGES, _SERVICES, _FIELDS = 4, 6, 2
"""Numbers of the fields of FileDescriptorProto and DescriptorProto on the path to the subject of a comment."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, and its comments by their path in the descriptor."""

    descriptor: Any
    comments: dict[tuple[int, ...], Any]

    def comment(self, *place: int) -> str:
        """The comment before or after it."""
        descriptors = self.comments.get(place)
        return (descriptors.leading_comments.strip() or descriptors.trailing_comments.strip()) if descriptors else ""

    def heading(self, *place: int) -> str:
        """The title of the section of the file that begins here; empty: no section begins."""
        descriptors = self.comments.get(place)
        text = " ".join(descriptors.leading_detached_comments).split() if descriptors else []
        title = re.fullmatch(r"--- (.*?)(?: ---)?", " ".join(text))
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
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    for file in descriptors.file:
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
    """Fields of every request, with their first description."""
    requests = [
        (number, message)
        for number, message in enumerate(file.descriptor.message_type)
        if any(
            message.name in method.input_type.split(".") for each in file.descriptor.service for method in each.method
        )
    ]
    names = set.intersection(*({field.name for field in message.field} for _, message in requests))
    descriptors: dict[str, str] = {}
    for number, message in requests:
        for place, field in enumerate(message.field):
            text = file.comment(_MESSAGES, number, _FIELDS, place)
            if field.name in names and text:
                descriptors.setdefault(
                    field.name, f"{code(field.name)} ({field.number}, {kind(message, field)}): {text}"
                )
    for name in names - descriptors.keys():
        described(f"field {name} of every request", "")
    return descriptors


def shared(file: File, common: dict[str, str]) -> str:
    """The section on the fields of every request."""
    return "## Every request\n\n" + "".join(f"- {text}\n" for _, text in sorted(common.items()))


def described_message(file: File, number: int, message: Any, common: dict[str, str]) -> str:
    """One message."""
    doc = sentence(described(f"message {message.name}", file.comment(_MESSAGES, number)))
    rows = []
    for place, field in enumerate(message.field):
        if field.name in common and message.name.endswith("Request"):
            continue
        text = described(f"field {message.name}.{field.name}", file.comment(_MESSAGES, number, _FIELDS, place))
        rows.append((code(field.name), str(field.number), kind(message, field), text))
    text = f"\n### {message.name}\n\n{doc}\n"
    return text + ("\n" + table(("field", "number", "type", "content"), rows) if rows else "")


def kind(message: Any, field: Any) -> str:
    """The field's type, and its cardinality."""
    proto = descriptor_pb2.FieldDescriptorProto
    entry = next(
        (each for each in message.nested_type if field.type_name.endswith(f".{message.name}.{each.name}")), None
    )
    if entry is not None:
        key, value = entry.field
        return f"map of {scalar(key)} to {scalar(value)}"
    text = linked(field.type_name) if field.type_name else scalar(field)
    if field.label == proto.LABEL_REPEATED:
        return f"list of {text}"
    if field.proto3_optional:
        return f"{text}, optional"
    if field.HasField("oneof_index"):
        return f"{text}, one of {code(message.oneof_decl[field.oneof_index].name)}"
    return text


def scalar(field: Any) -> str:
    """The name of a plain type, as in the file."""
    name: str = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()


def linked(type_name: str) -> str:
    """A message's name, as a link."""
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})"
