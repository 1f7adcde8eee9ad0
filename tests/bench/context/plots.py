"""Draws what the requests of the sessions weighed, with and without compaction: a picture for each strategy.

Needs matplotlib, which is no requirement of the project: `uv pip install matplotlib`.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench.context.figures import Figures
from tests.bench.context.replay import Measured

SHOWN = 4  # sessions in a picture: the smallest, the largest, and two between


def draw(found: Sequence[Figures], folder: Path) -> None:
    """Write `<strategy>.png` for each. Raises SystemExit when matplotlib is not there."""
    try:
        import_module("matplotlib").use("Agg")
        plot = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise SystemExit("matplotlib is missing; install it with: uv pip install matplotlib") from error
    folder.mkdir(parents=True, exist_ok=True)
    for figures in found:
        _picture(plot, figures, folder / f"{figures.strategy}.png")


def _picture(plot: Any, figures: Figures, path: Path) -> None:
    ordered = sorted(figures.sessions, key=lambda one: max(one.bare))
    chosen = [ordered[round(step * (len(ordered) - 1) / (SHOWN - 1))] for step in range(SHOWN)]
    unique = list({one.id: one for one in chosen}.values())
    picture, axes = plot.subplots(1, len(unique), figsize=(4 * len(unique), 3.2), squeeze=False, layout="constrained")
    for axis, one in zip(axes[0], unique, strict=True):
        _session(axis, one)
    axes[0][0].set_ylabel("tokens of the request (thousands)")
    axes[0][0].legend(loc="upper left", fontsize=8, frameon=False)
    picture.suptitle(
        f"{figures.strategy}: peak −{figures.cut:.0%}, in window {figures.in_window:.1%}, "
        f"with one recall {figures.provenance:.1%}",
        fontsize=11,
    )
    picture.savefig(path, dpi=100)
    plot.close(picture)


def _session(axis: Any, one: Measured) -> None:
    calls = range(1, len(one.sizes) + 1)
    axis.plot(calls, [size / 1000 for size in one.bare], color="#b0b0b0", linewidth=1.5, label="without compaction")
    axis.fill_between(calls, [size / 1000 for size in one.sizes], color="#3b6fb6", alpha=0.25)
    axis.plot(calls, [size / 1000 for size in one.sizes], color="#3b6fb6", linewidth=1.5, label="as sent")
    axis.axhline(one.window * 0.6 / 1000, color="#c0504d", linewidth=1, linestyle=":", label="soft threshold")
    axis.set_title(f"{one.id} (window {one.window // 1000:,}k)", fontsize=9)
    axis.set_xlabel("calls of the model", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.set_ylim(bottom=0)
    axis.margins(x=0)
