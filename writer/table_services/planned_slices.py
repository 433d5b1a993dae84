"""The file slices of a plan that another process may have written. Pure: names are checked against the group."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.timeline.services.plans import ClusteringSlice, CompactionGroup
from penstock.writer.index.slices import LatestSlice

_META_FOLDER = ".hoodie"


def planned_paths(planned: CompactionGroup | ClusteringSlice, where: str) -> tuple[str, ...]:
    """The paths of a planned slice's files: the base file, if any, then the logs in scan order.

    CorruptFile, beginning with `where`, for a file that is none of the group, or a partition that is none.
    """
    base, logs = _names(planned, where)
    folder = f"{planned.partition}/" if planned.partition else ""
    return tuple(folder + name for name in (*base, *logs))


def planned_slice(planned: CompactionGroup | ClusteringSlice, files: Mapping[str, FileRef], where: str) -> LatestSlice:
    """The slice of a plan, with the files of `planned_paths` by their path. Errors as there."""
    base, logs = _names(planned, where)
    refs = [files[path] for path in planned_paths(planned, where)]
    instants = [*(name.instant for name in base.values()), *(name.instant for name in logs.values())]
    return LatestSlice(
        partition=planned.partition,
        file_id=planned.file_id,
        base=refs[0] if base else None,
        base_instant=next((name.instant for name in base.values()), ""),
        logs=tuple(refs[len(base) :]),
        key=instants[0],
    )


def _names(planned: CompactionGroup | ClusteringSlice, where: str) -> tuple[dict[str, BaseName], dict[str, LogName]]:
    """The parsed names of the base file and of the logs, these in scan order."""
    if _META_FOLDER in planned.partition.split("/"):
        raise CorruptFile(f"{where}: got partition {planned.partition[:200]!r}, a metadata folder")
    bases: dict[str, BaseName] = {}
    logs: dict[str, LogName] = {}
    wrong: list[str] = []
    for name in (planned.base_file, *planned.logs):
        parsed = parse_file_name(name)
        is_base = name == planned.base_file
        if parsed is not None and parsed.file_id != planned.file_id:
            wrong.append(name)
        elif is_base and isinstance(parsed, BaseName) and parsed.write_token and name not in planned.logs:
            bases[name] = parsed
        elif not is_base and isinstance(parsed, LogName) and not parsed.is_cdc:
            logs[name] = parsed
        elif name:
            wrong.append(name)
    if wrong or not (bases or logs):
        raise CorruptFile(
            f"{where}: the plan has {wrong[0][:200] if wrong else 'no file'!r} in file group {planned.file_id[:100]!r} "
            f"of partition {planned.partition[:200]!r}, expected its base file and logs: the plan is damaged"
        )
    return bases, dict(sorted(logs.items(), key=lambda item: item[1].order))
