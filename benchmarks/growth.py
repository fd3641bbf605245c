"""How the time per iteration of mccgr grows with the numbers of samples, features and components.

    python -m benchmarks.growth [--figure growth.svg]

X is dense float64 with a graph of random neighbours. Times are medians; the exponent is the slope in a log-log plot.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np

from benchmarks.problems import update_of
from benchmarks.timing import per_step, table
from mccgr_cli.blocks.protocol import Array

BASE = {"samples": 20_000, "features": 500, "components": 10}
RANGES = {
    "samples": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "features": (50, 100, 200, 500, 1_000, 2_000, 5_000),
    "components": (2, 5, 10, 20, 50, 100),
}
FEATURES_OF_MANY = 100  # so that a million samples fit into memory


def measured(name: str, value: int) -> float:
    sizes = {**BASE, **({"features": FEATURES_OF_MANY} if name == "samples" else {}), name: value}
    update = update_of(sizes["samples"], sizes["features"], sizes["components"], np.float64)
    return statistics.median(per_step(update) for _ in range(5))


def exponent(values: Array, times: Array) -> float:
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def draw(found: dict[str, tuple[Array, Array]], path: Path) -> None:
    from mccgr_cli.output.plots.canvas import encode, log_scale, new_figure, our_look, stroke
    from mccgr_cli.settings import Drawing

    with our_look():
        figure = new_figure(Drawing(), 9, 3.2)
        for number, (name, (values, times)) in enumerate(found.items()):
            axes = figure.add_subplot(1, 3, number + 1)
            in_proportion = times[-1] * values / values[-1]
            axes.plot(values, 1000 * times, **stroke(0))
            axes.plot(values, 1000 * in_proportion, color="0.6", linestyle=":")
            log_scale(axes, "x", values)
            log_scale(axes, "y", 1000 * np.append(times, in_proportion))
            axes.set_xlabel(name)
            axes.set_title(f"exponent {exponent(values, times):.2f}")
            if number == 0:
                axes.set_ylabel("ms per iteration")
        path.write_bytes(encode(figure, "svg", None, "python -m benchmarks.growth", print))


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--figure", type=Path)
    given = options.parse_args(arguments)
    found: dict[str, tuple[Array, Array]] = {}
    for name, values in RANGES.items():
        times = np.array([measured(name, value) for value in values])
        found[name] = np.array(values), times
        row = ["ms per iteration", *(f"{1000 * taken:.2f}" for taken in times)]
        print(table([name, *(f"{value:,}" for value in values)], [row]))
        larger = slice(len(values) // 2, None)
        half = exponent(found[name][0][larger], times[larger])
        print(f"\nexponent {exponent(*found[name]):.2f}, of the larger half {half:.2f}\n")
    if given.figure is not None:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
