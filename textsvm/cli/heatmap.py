"""A tuned grid as a heat map: kernels by penalties, in the terminal and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.metric_columns import SHOWN
from textsvm.cli.output import PICTURES, STDOUT, Kind
from textsvm.errors import InputError, printable
from textsvm.kernels.spelling import spell
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.selection.tuning import Tuning

#: From the worst to the best mean.
_LOW, _HIGH = (247, 251, 255), (66, 146, 198)


def penalty(params: dict[str, Any]) -> str:
    """C, and epsilon or the multiclass strategy if that is searched too."""
    numbers = [f"{name} {params[name]:g}" for name in ("C", "epsilon") if name in params]
    return ", ".join([*numbers, *([params["multiclass"]] if "multiclass" in params else [])])


def setting(params: dict[str, Any]) -> str:
    """A point of the grid for people."""
    return f"{spell(params['kernel'])}, {penalty(params)}"


def _cells(result: Tuning) -> tuple[list[str], list[str], dict[tuple[str, str], float]]:
    """Rows (kernels), columns (penalties), and the mean in each cell."""
    cells = {(spell(row["params"]["kernel"]), penalty(row["params"])): row["mean"] for row in result.table}
    return list(dict.fromkeys(k for k, _ in cells)), list(dict.fromkeys(c for _, c in cells)), cells


def _share(value: float, cells: dict[tuple[str, str], float], less_is_better: bool) -> float:
    """Where a mean lies between the worst (0) and the best (1)."""
    known = [each for each in cells.values() if each == each]
    if value != value or max(known) == min(known):
        return 0.0
    share = (value - min(known)) / (max(known) - min(known))
    return 1 - share if less_is_better else share


def show(console: Console, result: Tuning) -> None:
    """The heat map as a coloured table; nothing where there is a single row or column."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from textsvm.selection.search import LESS_IS_BETTER

    rows, columns, cells = _cells(result)
    if len(rows) < 2 or len(columns) < 2:
        return
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for column in columns:
        table.add_column(Text(printable(column)), justify="right", overflow="fold")
    best = (spell(result.best_params_["kernel"]), penalty(result.best_params_))
    for row in rows:
        line = [Text(printable(row))]
        for column in columns:
            value = cells.get((row, column), float("nan"))
            share = _share(value, cells, result.metric in LESS_IS_BETTER)
            colour = ",".join(str(round(a + share * (b - a))) for a, b in zip(_LOW, _HIGH, strict=True))
            mark = "*" if (row, column) == best else " "
            style = f"{'bold ' * (mark == '*')}black on rgb({colour})"
            line.append(Text(f" {format_metric(result.metric, value)}{mark}", style=style))
        table.add_row(*line)
    console.stdout.print(Text(f"mean {SHOWN.get(result.metric, result.metric)}", style="bold"))
    console.stdout.print(table)


def kind_of(path: Path) -> Kind:
    """What a picture of this name is; one that could not be drawn is refused, before the work."""
    kind = PICTURES[".png"] if path == STDOUT else PICTURES.get(path.suffix.lower())
    if kind is None:
        raise WrongUsage(f"--heatmap {path}: the name must end in {', '.join(PICTURES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError('--heatmap needs Matplotlib: pip install "textsvm[plot]"') from error
    return kind


def draw(path: Path, result: Tuning) -> None:
    """The heat map as a picture; it is there complete or not at all."""
    import numpy as np
    from matplotlib.figure import Figure

    from textsvm.runtime.files import replacing
    from textsvm.selection.search import LESS_IS_BETTER

    rows, columns, cells = _cells(result)
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


def at_the_edge(result: Tuning) -> Iterator[str]:
    """Where the best value of C is the first or last of three or more tried."""
    tried = sorted({row["params"]["C"] for row in result.table})
    best = result.best_params_["C"]
    if len(tried) > 2 and best in (tried[0], tried[-1]):
        side = "smallest" if best == tried[0] else "largest"
        yield f"the best C, {best:g}, is the {side} of those tried; others beyond it may be better"
