"""Draw reports/panel.svg from reports/panel.json: points of accuracy that the default is ahead on each set.

    python reports/panel_picture.py

`reports/panel.py` calls it. Needs matplotlib (`pip install ".[plot]"`).
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

#: The axis ends here; larger leads are drawn at the end, with their value.
END = 5.0


def draw(path: Path) -> None:
    """Write path.svg from path.json."""
    sets: dict[str, dict[str, float]] = {}
    for row in json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["rows"]:
        sets.setdefault(row["set"], {})[row["classifier"]] = 100 * row["accuracy"]
    names = [name for name in next(iter(sets.values())) if name.startswith("TF-IDF")]
    gains = {name: [of["auto"] - of.get(name, float("nan")) for of in sets.values()] for name in names}
    order = sorted(range(len(sets)), key=gains[names[0]].__getitem__)
    labels = list(sets)
    plt.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "textsvm"})
    figure, axes = plt.subplots(figsize=(7.2, 1 + 0.19 * len(sets)), layout="constrained")
    for (label, values), marker, colour in zip(gains.items(), "os", ("#1f6f8b", "#d1793a"), strict=False):
        inside = [values[k] if values[k] <= END else float("nan") for k in order]
        axes.plot(inside, range(len(order)), marker, color=colour, label=label, alpha=0.9)
    beyond = False
    for place, k in enumerate(order):
        large = [f"{values[k]:+.1f}" for values in gains.values() if values[k] > END]
        beyond = beyond or bool(large)
        if large:
            axes.text(END, place, " and ".join(large) + " \u2192", ha="right", va="center")
    axes.axvline(0, color="#888888", linewidth=1)
    axes.set_yticks(range(len(order)), [labels[k] for k in order])
    axes.set_xlabel(
        "points of accuracy that SVC() is ahead"
        + (f"; beyond {END:g} the values are written, not drawn" if beyond else "")
    )
    lowest = min(value for values in gains.values() for value in values if value == value)
    axes.set_xlim(min(-1.2, lowest - 0.2), END + 0.1)
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("panel"))
