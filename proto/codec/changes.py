"""Encodes and decodes `GroupChanges`, `ChangesOf` and the files they name as messages of `penstock.v1`."""

from __future__ import annotations

from itertools import pairwise

from penstock.proto.codec import checks as check
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeSource,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import FileRef, LogWrite, SliceFiles
from penstock.proto.v1 import penstock_pb2 as pb


def file_to_message(file: FileRef) -> pb.FileRef:
    """Encodes a file of the table."""
    message = pb.FileRef(path=file.path, size_bytes=file.size_bytes)
    if file.writes is not None:
        writes = (pb.LogWrite(instant=w.instant, data_rows=w.data_rows, delete_rows=w.delete_rows) for w in file.writes)
        message.writes.CopyFrom(pb.LogWrites(writes=writes))
    if file.source is not None:
        message.source.CopyFrom(file_to_message(file.source))
    return message


def file_from_message(what: str, field: str, message: pb.FileRef) -> FileRef:
    """Decodes a file. ConfigurationError that names `what` and `field` for an invalid one."""
    path = check.name(what, f"{field}.path", message.path, check.MAX_PATH_CHARS)
    size_bytes = check.number(what, f"{field}.size_bytes", message.size_bytes)
    source = None
    if message.HasField("source"):
        if message.source.HasField("source") or message.source.HasField("writes") or message.HasField("writes"):
            raise check.breach(what, f"{field}.source", "a source of a source or of a log", "a source of a base file")
        source = file_from_message(what, f"{field}.source", message.source)
    return FileRef(path, size_bytes, _writes_from_message(what, f"{field}.writes", message), source)


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
    """Encodes the files of a slice."""
    return pb.SliceFiles(
        base=None if files.base is None else file_to_message(files.base),
        base_instant=files.base_instant,
        logs=[file_to_message(log) for log in files.logs],
    )


def slice_from_message(what: str, field: str, message: pb.SliceFiles) -> SliceFiles:
    """Decodes the files of a slice. ConfigurationError that names `what` and `field` for invalid ones."""
    base = file_from_message(what, f"{field}.base", message.base) if message.HasField("base") else None
    logs = check.counted(what, f"{field}.logs", message.logs, check.MAX_LOGS)
    if base is None and not logs:
        raise check.breach(what, field, "neither a base file nor a log file", "one of them")
    return SliceFiles(
        base=base,
        base_instant=check.instant_or_empty(what, f"{field}.base_instant", message.base_instant),
        logs=tuple(file_from_message(what, f"{field}.logs", log) for log in logs),
    )


def changes_to_message(changes: GroupChanges) -> pb.GroupChanges:
    """Encodes the changes of a file group."""
    return pb.GroupChanges(steps=[_step_to_message(step) for step in changes.steps])


def changes_from_message(what: str, message: pb.GroupChanges) -> GroupChanges:
    """Decodes such changes. ConfigurationError that names `what` for invalid, missing or unordered steps."""
    steps = tuple(
        _step_from_message(what, step) for step in check.counted(what, "changes", message.steps, check.MAX_STEPS)
    )
    if not steps:
        raise check.breach(what, "changes", "no step", "at least one")
    order = [(step.order_key, step.instant) for step in steps]
    if any(earlier >= later for earlier, later in pairwise(order)):
        raise check.breach(what, "changes", "steps out of order", "steps in commit order")
    return GroupChanges(steps)


def format_from_message(what: str, text: str) -> ChangeFormat:
    """Decodes a change format. ConfigurationError that names `what` for an unknown format."""
    try:
        return ChangeFormat(text)
    except ValueError:
        raise check.breach(what, "format", repr(text[:40]), "rows or hudi") from None


def changes_of_to_message(rows: ChangesOf) -> pb.ChangesOf:
    """Encodes the format, and the instants in their order."""
    return pb.ChangesOf(format=rows.format, instants=rows.instants)


def changes_of_from_message(what: str, message: pb.ChangesOf) -> ChangesOf:
    """Decodes such a message. ConfigurationError that names `what` for an invalid field or a repeated instant."""
    counted = check.counted(what, "changes.instants", message.instants, check.MAX_INSTANTS)
    instants = tuple(check.instant(what, "changes.instants", value) for value in counted)
    check.distinct(what, "changes.instants", instants)
    return ChangesOf(format_from_message(what, message.format), instants)


def _step_to_message(step: ChangeStep) -> pb.ChangeStep:
    message = pb.ChangeStep(instant=step.instant, order_key=step.order_key, place=step.place)
    match step.source:
        case LoggedImages(files, before, after, key_fields):
            logged = pb.LoggedImages(
                files=[file_to_message(file) for file in files],
                before=_optional_slice(before),
                after=_optional_slice(after),
                key_fields=key_fields,
            )
            message.logged.CopyFrom(logged)
        case ComparedStates(before, after):
            compared = pb.ComparedStates(before=_optional_slice(before), after=_optional_slice(after))
            message.compared.CopyFrom(compared)
        case StoredKinds(files=slice_files):
            message.stored.CopyFrom(pb.StoredKinds(files=slice_to_message(slice_files)))
    return message


def _optional_slice(files: SliceFiles | None) -> pb.SliceFiles | None:
    return None if files is None else slice_to_message(files)


def _step_from_message(what: str, message: pb.ChangeStep) -> ChangeStep:
    return ChangeStep(
        instant=check.instant(what, "changes.instant", message.instant),
        order_key=check.instant(what, "changes.order_key", message.order_key),
        place=check.number(what, "changes.place", message.place, check.MAX_PLACE),
        source=_source_from_message(what, message),
    )


def _source_from_message(what: str, message: pb.ChangeStep) -> ChangeSource:
    match message.WhichOneof("source"):
        case "logged":
            files = check.counted(what, "changes.logged", message.logged.files, check.MAX_LOGS)
            if not files:
                raise check.breach(what, "changes.logged", "no file", "at least one")
            return LoggedImages(
                tuple(file_from_message(what, "changes.logged", file) for file in files),
                _state(what, "before", message.logged),
                _state(what, "after", message.logged),
                check.names(what, "changes.key_fields", message.logged.key_fields),
            )
        case "compared":
            compared = message.compared
            before, after = _state(what, "before", compared), _state(what, "after", compared)
            if before is None and after is None:
                raise check.breach(what, "changes.compared", "neither state", "a state before or after")
            return ComparedStates(before, after)
        case "stored":
            if not message.stored.HasField("files"):
                raise check.breach(what, "changes.stored", "no files", "files")
            return StoredKinds(slice_from_message(what, "changes.stored", message.stored.files))
        case None:
            raise check.breach(what, "changes", "no source that this build knows", "logged, compared or stored")
        case other:
            raise InvariantViolation(f"the stubs know change source {other!r}, the codec does not")


def _state(what: str, side: str, message: pb.LoggedImages | pb.ComparedStates) -> SliceFiles | None:
    if side == "before":
        return slice_from_message(what, "changes.before", message.before) if message.HasField("before") else None
    return slice_from_message(what, "changes.after", message.after) if message.HasField("after") else None
