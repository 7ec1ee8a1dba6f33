"""Draw reports/panel.svg from reports/panel.json: what the default is ahead or behind on each set.

    python reports/panel_picture.py

Needs matplotlib (`pip install ".[plot]"`).
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def main() -> None:
    """Write the picture."""
    found: dict[str, dict[str, float]] = {}
    for row in json.loads((HERE / "panel.json").read_text(encoding="utf-8"))["rows"]:
        found.setdefault(row["set"], {})[row["classifier"]] = 100 * row["accuracy"]
    names = [name for name in next(iter(found.values())) if name.startswith("TF-IDF")]
    gains = {name: [of["auto"] - of.get(name, float("nan")) for of in found.values()] for name in names}
    order = sorted(range(len(found)), key=next(iter(gains.values())).__getitem__)
    sets = list(found)
    plt.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "textsvm"})
    figure, axes = plt.subplots(figsize=(7.2, 5.0), layout="constrained")
    for (label, values), marker, colour in zip(gains.items(), "os", ("#1f6f8b", "#d1793a"), strict=True):
        axes.plot([values[k] for k in order], range(len(order)), marker, color=colour, label=label, alpha=0.9)
    axes.axvspan(-2, 2, color="#f4f4f4", zorder=0)
    axes.axvline(0, color="#888888", linewidth=1)
    axes.set_yticks(range(len(order)), [sets[k] for k in order])
    axes.set_xscale("symlog", linthresh=2)
    axes.set_xticks([-1, 0, 1, 2, 5, 10], ["-1", "0", "1", "2", "5", "10"])
    axes.set_xlabel("points of accuracy that SVC() is ahead (linear up to 2, logarithmic beyond)")
    axes.set_xlim(left=-1.2)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(HERE / "panel.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
