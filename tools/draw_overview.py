"""Draws docs/images/overview.svg: table, topic, readers, enumerator, writer, engines. `--check` fails if it is old.

To change the picture, change the boxes and arrows in `DRAWING`. The colours follow the browser's light or dark scheme.
The picture has its own background, so that it is readable on a page with the other scheme.
"""

from __future__ import annotations

import pathlib
import sys
from dataclasses import dataclass
from html import escape
from typing import Final

TARGET: Final = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images" / "overview.svg"
WIDTH, HEIGHT = 985, 480
LINE_HEIGHT: Final = 18

STYLE: Final = """
  .page { fill: #ffffff; stroke: #d0d7de; }
  .box { fill: #f6f8fa; stroke: #57606a; }
  .own { fill: #ddf4ff; stroke: #0969da; }
  .line { stroke: #57606a; fill: none; }
  .head { fill: #57606a; }
  .dashed { stroke-dasharray: 5 4; }
  text { fill: #1f2328; font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
  .title { font-weight: 600; font-size: 15px; }
  .note { fill: #57606a; font-size: 13px; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d; }
    .box { fill: #161b22; stroke: #8b949e; }
    .own { fill: #0c2d4d; stroke: #58a6ff; }
    .line { stroke: #8b949e; }
    .head { fill: #8b949e; }
    text { fill: #e6edf3; }
    .note { fill: #9ea7b3; }
  }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A labelled box. `own`: a part of Penstock, drawn in its colour."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    own: bool = False

    def svg(self) -> list[str]:
        """The elements."""
        middle = self.x + self.width // 2
        top = self.y + (self.height - LINE_HEIGHT * len(self.lines)) // 2 + 5
        shape = f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8"'
        texts = [f'<text class="title" x="{middle}" y="{top}" text-anchor="middle">{escape(self.title)}</text>']
        for number, line in enumerate(self.lines, 1):
            y = top + LINE_HEIGHT * number
            texts.append(f'<text class="note" x="{middle}" y="{y}" text-anchor="middle">{escape(line)}</text>')
        return [f'{shape} class="{"own" if self.own else "box"}"/>', *texts]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points with a head at its end. The label begins at `at`. A dashed line carries no rows."""

    points: tuple[tuple[int, int], ...]
    label: str
    at: tuple[int, int]
    dashed: bool = False
    both: bool = False

    def svg(self) -> list[str]:
        """The elements."""
        path = " ".join(f"{x},{y}" for x, y in self.points)
        start = ' marker-start="url(#head)"' if self.both else ""
        kind = "line dashed" if self.dashed else "line"
        x, y = self.at
        return [
            f'<polyline class="{kind}" points="{path}" marker-end="url(#head)"{start}/>',
            f'<text class="note" x="{x}" y="{y}">{escape(self.label)}</text>',
        ]


DRAWING: Final[tuple[Box | Arrow, ...]] = (
    Box(30, 30, 210, 90, "Kafka topic", ("that fills the table",)),
    Box(30, 180, 210, 270, "Hudi table", ("timeline in .hoodie/", "base files (Parquet)", "log files (Avro, Parquet)")),
    Box(400, 30, 250, 120, "Readers", ("merge base and log files", "decode topic records", "return Arrow"), own=True),
    Box(400, 205, 250, 90, "Enumerator", ("plans commits as splits", "assigns splits, keeps positions"), own=True),
    Box(400, 350, 250, 100, "Writer", ("assigns rows to file groups", "commits files with positions"), own=True),
    Box(790, 30, 165, 420, ""),
    Box(805, 45, 135, 84, "Python", ("Arrow, consumers",), own=True),
    Box(805, 147, 135, 84, "Spark", ("batch, stream",), own=True),
    Box(805, 249, 135, 84, "Command line", ("files, sync",), own=True),
    Box(805, 351, 135, 84, "Your engine", ("gRPC, Arrow",)),
    Arrow(((240, 65), (394, 65)), "after the hand-over", (254, 56)),
    Arrow(((240, 215), (320, 215), (320, 120), (394, 120)), "files", (252, 206)),
    Arrow(((240, 268), (394, 268)), "commits, metadata", (258, 259), dashed=True),
    Arrow(((400, 400), (246, 400)), "files, commits", (278, 391)),
    Arrow(((525, 205), (525, 156)), "splits", (535, 185), dashed=True),
    Arrow(((650, 90), (784, 90)), "rows", (704, 81)),
    Arrow(((656, 250), (784, 250)), "plan, commit", (680, 241), dashed=True, both=True),
    Arrow(((790, 400), (656, 400)), "rows, changes", (678, 391)),
)  # fmt: skip


def drawing() -> str:
    """The SVG file."""
    elements = [element for part in DRAWING for element in part.svg()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="A Hudi table and its Kafka topic, the readers, the enumerator, the writer, and the engines">'
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="head" d="M0,0 L10,5 L0,10 z"/></marker></defs>'
    )
    page = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>'
    note = "<!-- drawn by tools/draw_overview.py; do not edit -->"
    return "\n".join([head, note, f"<style>{STYLE}</style>", marker, page, *elements, "</svg>"]) + "\n"


def main() -> int:
    """Writes the file, or checks it. The exit code is 1 if the check finds a difference."""
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(drawing(), encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != drawing():
        sys.stderr.write("docs/images/overview.svg is out of date: run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
