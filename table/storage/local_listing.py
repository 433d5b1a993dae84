"""Lists the files of a folder, without reading the size and time of those for which they do not matter."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Protocol, runtime_checkable

from penstock.table.storage.file_info import NOT_UTF8
from penstock.table.storage.filesystem import Storage


@runtime_checkable
class LocalFolders(Protocol):
    """A storage whose folders may be those of the local file system."""

    def local_folder(self, path: str) -> str | None:
        """The absolute path of a folder; None if it is not on the local file system."""
        ...


FileVersion = tuple[int, int]
"""Size of a file in bytes, and the time of its last change in nanoseconds since the epoch. A listing of many files is
kept for long: the garbage collector does not visit tuples of numbers, but every `FileInfo`."""
_NOT_READ: Final = (0, 0)


def file_versions(
    storage: Storage,
    path: str,
    described: Callable[[str], bool],
    before: Mapping[str, FileVersion] | None = None,
) -> Mapping[str, FileVersion]:
    """Name -> version of the files directly in the folder, by name; empty if the folder does not exist.

    The version is (0, 0) for a file for whose name `described` is false: on a local file system, reading it takes most
    of the time of a listing. `before` is an earlier result for the same folder and `described`, and saves time: of its
    files that are not described, only the names are read. It is the result itself if nothing changed on a local file
    system. Errors as `Storage.list_dir`.
    """
    folder = storage.local_folder(path) if isinstance(storage, LocalFolders) else None
    if folder is not None:
        try:
            return _listed_again(folder, described, before) if before else _sorted(dict(_scan(folder, described)))
        except FileNotFoundError:
            return {}
        except OSError:
            pass  # list_dir reports it with the path
    files = (info for info in storage.list_dir(path) if not info.is_dir)
    return {info.name: (info.size_bytes, info.modified_ns) if described(info.name) else _NOT_READ for info in files}


def _listed_again(
    folder: str, described: Callable[[str], bool], before: Mapping[str, FileVersion]
) -> Mapping[str, FileVersion]:
    """The versions of the files now.

    Names are read, and the size and time of each described file, as in a scan. The time of the folder would not do:
    mounted object stores do not change it, and a file that is added within one tick of the clock does not either.
    """
    names = set(os.listdir(folder))  # noqa: PTH208  here and below: pathlib takes several times as long
    gone = list(before.keys() - names)
    changed: dict[str, FileVersion] = {}
    for name, known in before.items():
        if known is _NOT_READ:  # the object of an earlier result: a described file may have this size and time
            continue
        version = _version(f"{folder}/{name}")
        if version is None:
            gone.append(name)
        elif version != known:
            changed[name] = version
    added = dict(_scan_names(folder, names.difference(before), described))
    if not (gone or changed or added):
        return before
    versions = {**before, **changed}
    for name in gone:
        versions.pop(name, None)
    versions.update(added)
    return _sorted(versions) if added else versions


def _sorted(versions: Mapping[str, FileVersion]) -> dict[str, FileVersion]:
    return {name: versions[name] for name in sorted(versions)}


def _version(path: str) -> FileVersion | None:
    """The version of a file; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _scan_names(
    folder: str, names: Collection[str], described: Callable[[str], bool]
) -> Iterator[tuple[str, FileVersion]]:
    """As `_scan`, of the files with these names."""
    for name in names:
        version = _version(f"{folder}/{name}")
        if version is not None:
            shown = _shown(name)
            yield shown, version if described(shown) else _NOT_READ


def _scan(folder: str, described: Callable[[str], bool]) -> Iterator[tuple[str, FileVersion]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file():
                continue
            name = _shown(entry.name)
            if not described(name):
                yield name, _NOT_READ
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            yield name, (status.st_size, status.st_mtime_ns)


def _shown(name: str) -> str:
    """The name of a file; NOT_UTF8 for one that is not UTF-8."""
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return NOT_UTF8
    return name
