"""From file names to slices, against a slow and plain model: names, listings of folders and of the metadata table,
slices, views, ids and paths, with hostile names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.enumerator.planning.split_ids import digest, slice_id
from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef, LogWrite
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Exclusions, VisibleInstants
from penstock.table.files import slices as sliced
from penstock.table.files.listing import list_data_files
from penstock.table.files.names import BaseName, LogName, parse_file_name
from penstock.table.files.slices import CommittedInstants, DataFile, OrderedUpTo, RequestedUpTo, View, group_files
from penstock.table.metadata.files import data_files
from penstock.table.storage.filesystem import FileInfo, checked_path
from penstock.table.timeline.fields import Fields

DIGITS = "0123456789"
INSTANTS = [f"{number:03d}" for number in range(1, 7)]
HOSTILE = [
    "",
    "a",
    "é",
    "٣",
    "\n",
    "\0",
    "/",
    ".",
    "_",
    "-",
    "1",
    "log",
    "cdc",
    "parquet",
    "f-0",
    "001",
    "\udcff",
    "x" * 250,
]
PARTS = st.lists(st.sampled_from([*HOSTILE, *INSTANTS, "_0-1-1", ".log.", ".parquet", "_hudiext"]), max_size=8)


def split_name(name: str) -> tuple[object, ...] | None:
    """The parts of a name, by hand."""
    if len(name) > 255:
        return None
    if name.startswith("."):
        head, dot, tail = name[1:].partition(".log.")
        group, _, instant = head.rpartition("_")
        version, underscore, rest = tail.partition("_")
        token = rest.removesuffix(".cdc")
        numbers = token.split("-")
        good = dot and is_id(group) and is_number(instant, 24) and is_number(version, 9)
        if underscore:
            good = good and len(numbers) == 3 and all(is_number(number, 999) for number in numbers)
        return (group, instant, int(version), token, rest != token) if good else None
    stem, _, extension = name.rpartition(".")
    parts = stem.split("_")
    if len(parts) != 3 or extension not in ("parquet", "orc", "hfile", "lance"):
        return None
    group, token, instant = parts
    return (group, token, instant, extension) if is_id(group) and is_id(token) and is_number(instant, 24) else None


def is_id(text: str) -> bool:
    return text != "" and not set(text) & set("_./\0")


def is_number(text: str, most: int) -> bool:
    return 0 < len(text) <= most and set(text) <= set(DIGITS)


def parts_of(name: BaseName | LogName | None) -> tuple[object, ...] | None:
    match name:
        case None:
            return None
        case BaseName(group, token, instant, extension):
            return (group, token, instant, extension)
        case LogName(group, instant, version, token, is_cdc):
            return (group, instant, version, token, is_cdc)


LENGTHS = st.sampled_from(["1" * length for length in (1, 9, 10, 24, 25)])
INSIDE = st.one_of(
    st.builds("f-0_0-1-{}_{}.parquet".format, st.integers(0, 2), st.sampled_from(INSTANTS)),
    st.builds(
        ".f-0_{}.log.{}{}".format,
        st.sampled_from(INSTANTS),
        st.integers(1, 11),
        st.sampled_from(["", "_0-1-1", "_0-1-2", "_0-1-1.cdc"]),
    ),
)
NAMES = st.one_of(
    PARTS.map("".join),
    INSIDE,
    st.builds("f-1_0-1-1_{}.{}".format, LENGTHS, st.sampled_from(["parquet", "orc", "hfile", "lance", "csv"])),
    st.builds(".f-1_{}.log.{}_{}-1-1".format, LENGTHS, LENGTHS, LENGTHS),
)


@settings(max_examples=200)
@given(NAMES.filter(lambda name: not name.endswith("_hudiext")))
@example("f-0_0-1-1_٣.parquet")
@example("f-0_0-1-1_001.parquet\n")
def test_name_has_the_parts_of_the_model(name: str) -> None:
    assert parts_of(parse_file_name(name)) == split_name(name)


@dataclass(frozen=True)
class Folder:
    """A storage with one folder."""

    names: Sequence[str]
    base_path: str = "memory"

    def list_dir(self, path: str) -> list[FileInfo]:
        return [
            FileInfo(name=name, path=f"{path}/{name}", size_bytes=place, is_dir=False, modified_ns=0)
            for place, name in enumerate(self.names)
        ]


@given(st.lists(NAMES.filter(lambda name: "/" not in name and "\0" not in name), unique=True, max_size=12))
def test_folder_and_metadata_table_list_the_files_of_the_model(names: list[str]) -> None:
    """The metadata table refuses a name that no path may have, and a mark without an instant."""
    ordered = sorted(names)
    listed = list_data_files(Folder(ordered), "p")  # type: ignore[arg-type]
    own = [(f"p/{name}", place) for place, name in enumerate(ordered) if split_name(name) is not None]
    assert [(file.ref.path, file.ref.size_bytes) for file in listed] == own
    assert all(file.listed and not file.named_by and file.partition == "p" for file in listed)
    entries = {name: {"size": place, "isDeleted": False} for place, name in enumerate(ordered)}
    record = Fields({"filesystemMetadata": entries}, "record")
    if any(name in ("", ".", "..") or "\udcff" in name or name.endswith("_hudiext") for name in names):
        return
    assert data_files("p", [record]) == listed


def model_slices(
    files: list[DataFile], pending: set[str], committed: CommittedInstants
) -> list[tuple[str, str, list[str]]]:
    """(key, base file, logs) of each slice, by the definitions in the docstring of `slice_group`."""
    known = [file for file in files if committed.holds(file.name.instant)]
    bases = [file for file in known if isinstance(file.name, BaseName)]
    logs = [
        (file.name, file)
        for file in (files if committed.layout == 1 else known)
        if isinstance(file.name, LogName) and not file.name.is_cdc
    ]
    keys = {file.name.instant for file in bases} | pending
    members: dict[str, list[tuple[LogName, DataFile]]] = {key: [] for key in keys}
    for name, file in sorted(logs, key=lambda item: item[0].order):
        if committed.layout == 1:
            key: str = name.instant
        else:
            earlier = [key for key in members if key <= committed.order_key(name.instant)]
            key = max(earlier, default=name.instant)
        members.setdefault(key, []).append((name, file))
    result = []
    for key in sorted(members):
        of_key = [file for file in bases if file.name.instant == key]
        of_key.sort(key=lambda file: (file.named_by != "", file.listed, file.ref.path))
        result.append((key, of_key[-1].ref.path if of_key else "", [file.ref.path for _, file in members[key]]))
    return result


def model_view(slices: list[tuple[str, str, list[str]]], shows: dict[str, bool], upto: str) -> list[str]:
    """The paths that a view shows: the newest shown base file, and the shown logs of its slice and later ones."""
    slices = [item for item in slices if item[0] <= upto]
    first = max((place for place, (_, path, _) in enumerate(slices) if path and shows[path]), default=-1)
    base = [slices[first][1]] if first >= 0 else []
    return base + [path for _, _, logs in slices[max(first, 0) :] for path in logs if shows[path]]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[DataFile], set[str], CommittedInstants]:
    """Files of one group, its pending compactions, and the committed instants."""
    files = []
    for name in draw(st.lists(INSIDE, unique=True, max_size=12)):
        parsed = parse_file_name(name)
        if parsed is not None:
            named_by = draw(st.sampled_from(["", "009"]))
            ref = FileRef(f"p/{name}", 1)
            listed = draw(st.booleans())
            files.append(DataFile(partition="p", ref=ref, name=parsed, listed=listed, named_by=named_by))
    instants = draw(st.permutations(INSTANTS))
    completed = {instant: f"{int(instant) + draw(st.integers(0, 3)):03d}" for instant in instants[:4]}
    layout = draw(st.sampled_from([1, 2]))
    keys = {instant: instant for instant in completed} if layout == 1 else completed
    before = draw(st.sampled_from(["", "003"]))
    return (
        files,
        set(draw(st.lists(st.sampled_from(INSTANTS), max_size=2))),
        CommittedInstants(layout=layout, order_keys=keys, archived_before=before),
    )


@settings(max_examples=200)
@given(groups(), st.sampled_from([None, *INSTANTS]), st.booleans())
def test_slices_and_views_are_those_of_the_model(
    group: tuple[list[DataFile], set[str], CommittedInstants], end: str | None, by_order: bool
) -> None:
    files, pending, committed = group
    members = group_files(files).get(("p", "f-0"), [])
    slices = sliced.slice_group(members, pending, committed)
    model = model_slices(files, pending, committed)
    found = [
        (item.key, item.base.ref.path if item.base else "", [log.ref.path for log in item.logs]) for item in slices
    ]
    assert found == model
    view: View = sliced.Everything()
    shows = {file.ref.path: True for file in files}
    upto = "999"
    if end is not None and by_order:
        view = OrderedUpTo(end)
        shows = {file.ref.path: committed.order_key(file.name.instant) <= end for file in files}
    elif end is not None:
        view, upto = RequestedUpTo(end), end
        shows = {file.ref.path: file.name.instant <= end for file in files}
    visible = sliced.visible_files(slices, view, committed)
    assert [file.ref.path for file in visible.files] == model_view(model, shows, upto) if visible else True
    assert (visible is None) == (not model_view(model, shows, upto))


TEXTS = st.text(max_size=12)
REFS = st.builds(
    FileRef,
    TEXTS,
    st.integers(0, 2**63),
    st.none()
    | st.lists(st.builds(LogWrite, st.sampled_from([*map(InstantTime, INSTANTS)]), st.integers(), st.integers())).map(
        tuple
    ),
)
TIMES = st.frozensets(st.sampled_from([*map(InstantTime, INSTANTS)]))
EXCLUSIONS = st.none() | st.builds(Exclusions, rows=TIMES, some_rows=TIMES, blocks=TIMES)
SHARING = st.none() | st.builds(VisibleInstants, TIMES)


@given(TEXTS, st.tuples(TEXTS, TEXTS), st.none() | REFS, st.lists(REFS, max_size=3), EXCLUSIONS, SHARING)
def test_id_is_the_digest_of_its_parts(
    scope: str,
    group: tuple[str, str],
    base: FileRef | None,
    logs: list[FileRef],
    exclusions: Exclusions | None,
    sharing: VisibleInstants | None,
) -> None:
    of_logs: list[object] = []
    for log in logs:
        if sharing is None or log.writes is None:
            of_logs.append([log.path, log.size_bytes])
        elif counted := [[w.instant, w.data_rows, w.delete_rows] for w in log.writes if sharing.holds(w.instant)]:
            of_logs.append([log.path, counted])
    parts: list[object] = ["slice", scope, list(group), [] if base is None else [base.path, base.size_bytes], of_logs]
    if exclusions is not None:
        parts.append([sorted(exclusions.rows), sorted(exclusions.some_rows), sorted(exclusions.blocks)])
    assert slice_id(scope, group, base, logs, exclusions, sharing=sharing) == digest(parts)


PATHS = st.lists(st.sampled_from([*HOSTILE, "/", "/", "..", "./", "s3:/", ":", "x" * 4000]), max_size=7).map("".join)


@settings(max_examples=200)
@given(PATHS)
def test_path_is_allowed_as_in_the_model(path: str) -> None:
    parts = path.split("/")
    allowed = path == "" or not (
        "\0" in path
        or "\udcff" in path
        or (path.partition(":/")[1] and is_scheme(path.partition(":/")[0]))
        or len(path.encode(errors="surrogatepass")) > 4096
        or {"", ".", ".."} & set(parts)
    )
    if allowed:
        assert checked_path(path) == path
    else:
        with pytest.raises(CorruptFile, match="is refused"):
            checked_path(path)


def is_scheme(text: str) -> bool:
    letters = "abcdefghijklmnopqrstuvwxyz"
    lower = text.lower()
    return text.isascii() and lower[:1] in letters and lower != "" and set(lower) <= set(letters + DIGITS + "+.-")
