"""A run's figures as Markdown and JSON. Pure; drawing is in `plots`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.compared.contestants import Contestant
from bench.compared.schedule import Outcome, Spread, cpu_s
from bench.compared.targets import Figures, judge, three_digits


def ratio_text(spread: Spread) -> str:
    """Text of the median with the lowest and the highest value."""
    return f"{three_digits(spread.median)} ({three_digits(spread.low)}–{three_digits(spread.high)})"


def targets_lines(figures: Figures) -> list[str]:
    """The table of targets."""
    lines = ["| what | target | not done below | measured | verdict |", "|---|---|---|---|---|"]
    for target, spread, verdict in judge(figures):
        measured = ratio_text(spread) if spread else "–"
        lines.append(
            f"| {target.what} | {target.text(target.goal)} | {target.text(target.floor)} | {measured} | {verdict} |"
        )
    return lines


def seconds_text(outcome: Outcome, contestant: Contestant) -> str:
    """Median CPU seconds of the counted rounds."""
    return f"{statistics.median(map(cpu_s, outcome.counted(contestant))):.3f}"


def turn_lines(figures: Figures) -> list[str]:
    """Every turn: the cost of each contestant, and its ratio to Penstock's cost."""
    lines = ["| question | rows | reader | CPU s | wall s | against |", "|---|---|---|---|---|---|"]
    for outcome in figures.outcomes.values():
        for number, contestant in enumerate(outcome.turn.contestants):
            wall = statistics.median(cost.wall_s for cost in outcome.counted(contestant))
            ours = [mine for mine in OURS if is_measured_by(contestant, mine, outcome)]
            against = [f"{ratio_text(outcome.ratio(contestant, mine, cpu_s))} of {mine}" for mine in ours]
            title = (outcome.turn.title, f"{outcome.rows:,}") if number == 0 else ("", "")
            cells = (*title, contestant, seconds_text(outcome, contestant), f"{wall:.3f}", "<br>".join(against))
            lines.append("| " + " | ".join(cells) + " |")
    return lines


OURS = (Contestant.ARROW, Contestant.SPARK, Contestant.SPARK_TABLE, Contestant.SPARK_SQL)
"""The readers to which the report gives ratios of the others."""


def is_measured_by(contestant: Contestant, mine: Contestant, outcome: Outcome) -> bool:
    """Whether the report has a contestant's ratio to `mine`: of Penstock's own only for other ways to read in Spark."""
    own = (Contestant.ARROW, Contestant.SYSTEM_POOL, Contestant.SPARK)
    return mine in outcome.turn.contestants and contestant not in (*own, mine)


def memory_lines(figures: Figures) -> list[str]:
    """Peak memory of fresh processes."""
    lines = [
        "| reader | table | columns | above baseline, MiB | of it, spread | whole, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for (contestant, table, columns), samples in figures.peaks.items():
        above = sorted(sample.above_bytes / (1 << 20) for sample in samples)
        peak_mib = statistics.median(sample.peak_bytes / (1 << 20) for sample in samples)
        cells = (contestant, table, columns, f"{statistics.median(above):.0f}")
        lines.append("| " + " | ".join((*cells, f"{above[0]:.0f}–{above[-1]:.0f}", f"{peak_mib:.0f}")) + " |")
    return lines


def first_lines(figures: Figures) -> list[str]:
    """First queries of fresh Spark sessions."""
    lines = ["| reader | session, s | first query, s |", "|---|---|---|"]
    for contestant, samples in figures.firsts.items():
        session = statistics.median(sample.session_s for sample in samples)
        queries = sorted(sample.query_s for sample in samples)
        spread = f"{statistics.median(queries):.2f} ({queries[0]:.2f}–{queries[-1]:.2f})"
        lines.append(f"| {contestant} | {session:.1f} | {spread} |")
    return lines


def record_lines(figures: Figures) -> list[str]:
    """Batches compared with one object per record: CPU time, bytes per row that Python sent, Python's share of CPU."""
    lines = [
        "| query | reader | CPU s | bytes a row to Spark | Python's share of CPU | less CPU by batches |",
        "|---|---|---|---|---|---|",
    ]
    for key, outcome in figures.outcomes.items():
        if Contestant.PER_RECORD not in outcome.turn.contestants:
            continue
        ratio = outcome.ratio(Contestant.SPARK, Contestant.PER_RECORD, cpu_s).median
        for contestant in outcome.turn.contestants:
            counted = outcome.counted(contestant)
            share = sum(cost.python_s for cost in counted) / sum(cost.cpu_s for cost in counted)
            sent = figures.sent.get((key, contestant), 0) / outcome.rows
            less = f"{1 - ratio:.0%}" if contestant is Contestant.SPARK else ""
            title = outcome.turn.title if contestant is Contestant.SPARK else ""
            cpu = seconds_text(outcome, contestant)
            lines.append(f"| {title} | {contestant} | {cpu} | {sent:.0f} | {share:.0%} | {less} |")
    return lines


def markdown(figures: Figures, about: Mapping[str, str], plots: list[str]) -> str:
    """The whole report."""
    parts = [f"# Measured side by side on {about['date']}", *(f"* {name}: {value}" for name, value in about.items())]
    parts += ["", "Ratios are medians of the rounds' own ratios, with the lowest and the highest.", ""]
    parts += ["## Targets", "", *targets_lines(figures), ""]
    parts += [f"* {key} failed: {error.splitlines()[-1][:300]}" for key, error in figures.failed.items()]
    if figures.outcomes:
        parts += ["## Processor time", "", *turn_lines(figures), ""]
    if figures.peaks:
        parts += ["## Peak memory, fresh processes", "", *memory_lines(figures), ""]
    if figures.firsts:
        parts += ["## First query of a fresh session", "", *first_lines(figures), ""]
    if len(record_lines(figures)) > 2:
        parts += ["## TPC-H lineitem: batches beside records", "", *record_lines(figures), ""]
    return "\n".join([*parts, *(f"![{plot}]({plot})" for plot in plots), ""])


def as_json(figures: Figures, about: Mapping[str, str]) -> dict[str, Any]:
    """All measurements, round by round."""
    return {
        "about": dict(about),
        "targets": [
            {
                "what": target.what,
                "goal": target.goal,
                "floor": target.floor,
                "at_least": target.at_least,
                "unit": target.unit,
                "measured": asdict(spread) if spread else None,
                "verdict": verdict,
            }
            for target, spread, verdict in judge(figures)
        ],
        "turns": {
            key: {
                "title": outcome.turn.title,
                "rows": outcome.rows,
                "rounds_counted": outcome.turn.rounds,
                "costs": {str(who): [asdict(cost) for cost in costs] for who, costs in outcome.costs.items()},
            }
            for key, outcome in figures.outcomes.items()
        },
        "peaks": [
            {"reader": str(who), "table": table, "columns": columns, "rounds": [asdict(sample) for sample in samples]}
            for (who, table, columns), samples in figures.peaks.items()
        ],
        "first_queries": {str(who): [asdict(sample) for sample in samples] for who, samples in figures.firsts.items()},
        "sent_bytes": [{"turn": key, "reader": str(who), "bytes": sent} for (key, who), sent in figures.sent.items()],
        "decode_records_s": figures.decode_records_s,
        "idle": figures.idle,
        "failed": figures.failed,
    }
