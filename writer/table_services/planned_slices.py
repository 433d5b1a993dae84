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
    instants = [name.instant for name in (*base.values(), *logs.values())]
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
    base = {name: parse_file_name(name) for name in (planned.base_file,) if name}
    logs = {name: parse_file_name(name) for name in planned.logs}
    bases = {name: parsed for name, parsed in base.items() if isinstance(parsed, BaseName) and parsed.write_token}
    parts = {name: parsed for name, parsed in logs.items() if isinstance(parsed, LogName) and not parsed.is_cdc}
    known = {**bases, **parts}
    wrong = [name for name in (*base, *logs) if name not in known or known[name].file_id != planned.file_id]
    if wrong or not known:
        raise CorruptFile(
            f"{where}: the plan has {wrong[0][:200] if wrong else 'no file'!r} in file group {planned.file_id[:100]!r} "
            f"of partition {planned.partition[:200]!r}, expected its base file and logs: the plan is damaged"
        )
    return bases, dict(sorted(parts.items(), key=lambda item: item[1].order))
