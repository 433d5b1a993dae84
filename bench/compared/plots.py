"""Two pictures of a run: the CPU time of each question and reader, and the figures relative to their targets."""

from __future__ import annotations

import math
import pathlib
import statistics

from bench.compared.schedule import cpu_s
from bench.compared.targets import Figures, judge

COLOURS = {"met": "#2a9d8f", "missed": "#e9c46a", "NOT DONE": "#e76f51"}


def draw(figures: Figures, stem: pathlib.Path) -> list[str]:
    """Writes the pictures, named after `stem`, into its folder. Returns their names; [] without figures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "bench", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    drawn = []
    measured = [(target, spread, verdict) for target, spread, verdict in judge(figures) if spread]
    if measured:
        figure, axes = plt.subplots(figsize=(9, 0.4 * len(measured) + 1.2))
        for place, (target, spread, verdict) in enumerate(reversed(measured)):
            values = [value / target.goal for value in (spread.median, spread.low, spread.high)]
            median, low, high = values if target.at_least else [1 / max(value, 1e-9) for value in values]
            score, ends = math.log2(max(median, 1 / 16)), sorted(math.log2(max(end, 1 / 16)) for end in (low, high))
            axes.barh(place, min(score, 3), color=COLOURS[verdict])
            axes.plot([min(end, 3) for end in ends], [place, place], color="black", linewidth=1)
        axes.set_yticks(range(len(measured)), [target.what for target, _, _ in reversed(measured)], fontsize=7)
        axes.axvline(0, color="black", linewidth=0.8)
        ticks = (-2, -1, 0, 1, 2, 3)
        axes.set_xticks(ticks, [f"{2.0**tick:g}x" for tick in ticks])
        axes.set_title("measured against the target (1x: just met; to the right: better)", fontsize=9)
        drawn.append(_save(plt, figure, stem, "targets"))
    if figures.outcomes:
        outcomes = list(figures.outcomes.values())
        figure, grid = plt.subplots(len(outcomes), 1, figsize=(9, 1.3 * len(outcomes)), squeeze=False)
        for (axes,), outcome in zip(grid, outcomes, strict=True):
            names = [str(who) for who in outcome.turn.contestants]
            medians = [statistics.median(map(cpu_s, outcome.counted(who))) for who in outcome.turn.contestants]
            bars = axes.barh(names, medians, color=["#264653" if "Penstock" in name else "#a8b5ba" for name in names])
            axes.bar_label(bars, [f"{value:.2f}" for value in medians], fontsize=6, padding=2)
            axes.invert_yaxis()
            axes.tick_params(labelsize=6)
            axes.set_title(f"{outcome.turn.title}: CPU s", fontsize=7, loc="left")
        drawn.append(_save(plt, figure, stem, "cpu"))
    return drawn


def _save(plt: object, figure: object, stem: pathlib.Path, name: str) -> str:
    path = stem.with_name(f"{stem.name}-{name}.svg")
    figure.tight_layout()  # type: ignore[attr-defined]
    figure.savefig(path, metadata={"Date": None})  # type: ignore[attr-defined]
    plt.close(figure)  # type: ignore[attr-defined]
    return path.name
