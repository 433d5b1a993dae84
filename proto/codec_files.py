"""FileRef and SliceFiles ⇄ their messages of `penstock.v1`: what splits and changes both hold."""

from __future__ import annotations

from penstock.proto import codec_checks as check
from penstock.proto.files import FileRef, LogWrite, SliceFiles
from penstock.proto.v1 import penstock_pb2 as pb


def file_to_message(file: FileRef) -> pb.FileRef:
    """Any data file."""
    message = pb.FileRef(path=file.path, size_bytes=file.size_bytes)
    if file.writes is not None:
        writes = (pb.LogWrite(instant=w.instant, data_rows=w.data_rows, delete_rows=w.delete_rows) for w in file.writes)
        message.writes.CopyFrom(pb.LogWrites(writes=writes))
    return message


def file_from_message(what: str, field: str, message: pb.FileRef) -> FileRef:
    """ConfigurationError naming `what` and `field` if it is none."""
    path = check.name(what, f"{field}.path", message.path, check.MAX_PATH_CHARS)
    size_bytes = check.number(what, f"{field}.size_bytes", message.size_bytes)
    return FileRef(path, size_bytes, _writes_from_message(what, f"{field}.writes", message))


def _writes_from_message(what: str, field: str, message: pb.FileRef) -> tuple[LogWrite, ...] | None:
    if not message.HasField("writes"):
        return None
    return tuple(
        LogWrite(
            check.instant(what, field, write.instant),
            check.number(what, field, write.data_rows),
            check.number(what, field, write.delete_rows),
        )
        for write in check.counted(what, field, message.writes.writes, check.MAX_LOGS)
    )


def slice_to_message(files: SliceFiles) -> pb.SliceFiles:
    """Any slice's files."""
    return pb.SliceFiles(
        base=None if files.base is None else file_to_message(files.base),
        base_instant=files.base_instant,
        logs=[file_to_message(log) for log in files.logs],
    )


def slice_from_message(what: str, field: str, message: pb.SliceFiles) -> SliceFiles:
    """ConfigurationError naming `what` and `field` if it is none."""
    base = file_from_message(what, f"{field}.base", message.base) if message.HasField("base") else None
    logs = check.counted(what, f"{field}.logs", message.logs, check.MAX_LOGS)
    if base is None and not logs:
        raise check.breach(what, field, "neither a base file nor a log file", "one of them")
    return SliceFiles(
        base=base,
        base_instant=check.instant_or_empty(what, f"{field}.base_instant", message.base_instant),
        logs=tuple(file_from_message(what, f"{field}.logs", log) for log in logs),
    )
