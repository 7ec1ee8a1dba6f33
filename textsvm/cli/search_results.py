"""Results of a search by `tune`: tables in the terminal and a heat map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from textsvm.arrays import Json
from textsvm.cli.console import Console, seconds_row
from textsvm.cli.cv import SHOWN
from textsvm.errors import printable
from textsvm.kernels.spelling import spell
from textsvm.readers.corpus import Corpus
from textsvm.reporting.formatting import format_metric
from textsvm.runtime.files import replacing
from textsvm.selection.search import LESS_IS_BETTER
from textsvm.selection.tuning import Tuning

#: Largest number of settings in the printed table.
_MOST = 20
#: RGB colours of the heat map.
_WORST, _BEST = (247, 251, 255), (66, 146, 198)


def show_search(console: Console, result: Tuning, corpus: Corpus, report: Json) -> None:
    """Print the settings by their mean, the grid and the best setting."""
    name = result.metric
    title = SHOWN.get(name, name)
    ranked = sorted(result.table, key=lambda row: -_merit(row["mean"], name))
    best = next(row for row in ranked if row["params"] is result.best_params_)
    ranked = [best, *(row for row in ranked if row is not best)]
    others = [other for other in SHOWN if other in ranked[0]["metrics"] and other != name][:3]
    rows = [
        (
            ("* " if row is best else "  ") + _setting(row["params"]),
            format_metric(name, row["mean"]),
            format_metric(name, row["sd"]),
            *(format_metric(other, row["metrics"][other]) for other in others),
            f"{row['seconds']:.2f}",
        )
        for row in ranked[:_MOST]
    ]
    more = f", the best {_MOST}" if len(ranked) > _MOST else ""
    folds = f"{len(result.folds)} folds of {len(corpus):,} documents"
    console.table(
        f"{len(ranked)} setting{'s' * (len(ranked) > 1)} by mean {title} over {folds}{more}",
        rows,
        ("setting", title, "SD", *(SHOWN[other] for other in others), "seconds"),
    )
    _show_heatmap(console, result)
    summary = [
        ("best", _setting(result.best_params_)),
        (f"{title}, mean of folds", _mean_and_sd(name, best["mean"], best["sd"])),
    ]
    if result.nested is not None:
        nested = _mean_and_sd(name, result.nested.mean[name], result.nested.sd[name])
        summary.append((f"{title}, nested", nested))
    summary.append(seconds_row(report["seconds"]))
    summary.append(("model", report["model"] or "not written; -o FILE writes it"))
    console.table("the best setting", summary)
    if result.best_params_["kernel"] == "auto" and len(ranked) > 1:
        console.say("note: no setting was better than the default (auto) by more than a standard error")
        return
    values_of_c = sorted({row["params"]["C"] for row in result.table if row["params"]["kernel"] != "auto"})
    best_c = result.best_params_["C"]
    if len(values_of_c) > 2 and best_c in (values_of_c[0], values_of_c[-1]):
        side = "smallest" if best_c == values_of_c[0] else "largest"
        console.say(f"note: the best C, {best_c:g}, is the {side} value tried; values beyond may be better")


def _mean_and_sd(metric: str, mean: float, sd: float) -> str:
    return f"{format_metric(metric, mean)} (SD {format_metric(metric, sd)})"


def _merit(mean: float | None, metric: str) -> float:
    if mean is None or mean != mean:
        return float("-inf")
    return -mean if metric in LESS_IS_BETTER else mean


def _penalty(params: Json) -> str:
    """C, epsilon and multiclass strategy of a setting, in words."""
    numbers = [f"{name} {params[name]:g}" for name in ("C", "epsilon") if name in params]
    return ", ".join([*numbers, *([params["multiclass"]] if "multiclass" in params else [])])


def spelled(params: Json) -> str:
    """Kernel of a setting."""
    return "auto" if params["kernel"] == "auto" else spell(params["kernel"])


def _setting(params: Json) -> str:
    return f"{spelled(params)}, {_penalty(params)}"


def _heatmap_cells(result: Tuning) -> tuple[list[str], list[str], dict[tuple[str, str], float]]:
    """Rows (kernels), columns (penalties) and the mean of each cell."""
    cells = {(spelled(row["params"]), _penalty(row["params"])): row["mean"] for row in result.table}
    return list(dict.fromkeys(k for k, _ in cells)), list(dict.fromkeys(c for _, c in cells)), cells


def _share(value: float, cells: dict[tuple[str, str], float], less_is_better: bool) -> float:
    """Position of a mean between the worst (0) and the best (1)."""
    means = [mean for mean in cells.values() if mean == mean]
    if value != value or max(means) == min(means):
        return 0.0
    share = (value - min(means)) / (max(means) - min(means))
    return 1 - share if less_is_better else share


def _show_heatmap(console: Console, result: Tuning) -> None:
    """Print the grid as a coloured table, if it has several rows and columns."""
    rows, columns, cells = _heatmap_cells(result)
    if len(rows) < 2 or len(columns) < 2:
        return
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for column in columns:
        table.add_column(Text(printable(column)), justify="right", overflow="fold")
    best = (spelled(result.best_params_), _penalty(result.best_params_))
    for row in rows:
        line = [Text(printable(row))]
        for column in columns:
            value = cells.get((row, column), float("nan"))
            share = _share(value, cells, result.metric in LESS_IS_BETTER)
            colour = ",".join(str(round(a + share * (b - a))) for a, b in zip(_WORST, _BEST, strict=True))
            mark = "*" if (row, column) == best else " "
            style = f"{'bold ' * (mark == '*')}black on rgb({colour})"
            line.append(Text(f" {format_metric(result.metric, value)}{mark}", style=style))
        table.add_row(*line)
    console.stdout.print(Text(f"mean {SHOWN.get(result.metric, result.metric)}", style="bold"))
    console.stdout.print(table)


def draw_heatmap(path: Path, result: Tuning) -> None:
    """Draw the grid as a picture; the file is replaced at once, or not at all."""
    from matplotlib.figure import Figure

    rows, columns, cells = _heatmap_cells(result)
    values = np.array([[cells.get((row, column), np.nan) for column in columns] for row in rows])
    picture = Figure(figsize=(2.5 + 0.9 * len(columns), 1.5 + 0.4 * len(rows)), layout="constrained")
    axes = picture.add_subplot()
    image = axes.imshow(values, cmap="Blues_r" if result.metric in LESS_IS_BETTER else "Blues", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            share = _share(values[i, j], cells, result.metric in LESS_IS_BETTER)
            axes.text(
                j, i, format_metric(result.metric, cells.get((row, column))), ha="center", va="center",
                color="white" if share > 0.6 else "black", fontsize=8,
            )  # fmt: skip
    axes.set_title(f"mean {SHOWN.get(result.metric, result.metric)} over {len(result.folds)} folds")
    picture.colorbar(image)
    with replacing(path) as temporary:
        picture.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=150)
