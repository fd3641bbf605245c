"""What figures and the page both show: charts (their lines, styles and axes), and samples in a plane.

``plots.curves`` draws charts with matplotlib, ``report.charts`` as SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.catalog import SILENCED
from mccgr_cli.errors import DataError
from mccgr_cli.output.text import plural

FEW_ITERATIONS = 20


@dataclass(frozen=True)
class Line:
    name: str
    values: Array  # values that are not finite leave a gap
    style: int  # decides on colour, marker and dashes


@dataclass(frozen=True)
class Chart:
    title: str
    summary: str  # for readers who cannot see it
    lines: tuple[Line, ...]
    labels: tuple[str, str]  # of the x and the y axis
    first: int = 0  # x of the first value; each following value is 1 further
    log_x: bool = False  # linear from 0 to 1, logarithmic from 1 on
    log_y: bool = False
    span: tuple[float, float] | None = None  # the least part of the y axis to show


def convergence(history: Mapping[str, Array]) -> list[Chart]:
    """The objective and its terms after every iteration, and the bandwidth of methods that have one."""
    objective, sigma = history["objective"], history["sigma"]
    lines = [Line("objective", objective, 0)]
    if np.nan_to_num(history["graph"]).any():
        lines += [Line("data term", history["data"], 1), Line("graph term", history["graph"], 2)]
    charts = [over_iterations("Objective", "objective", lines)]
    if np.isfinite(sigma).any():
        charts.append(over_iterations("Bandwidth", "bandwidth σ", [Line("bandwidth", sigma, 3)]))
    return charts


def several_runs(objectives: Mapping[str, Array]) -> Chart:
    """The objectives of several runs by their names; divided by their last values if these are positive."""
    label = "objective"
    if min(values[-1] for values in objectives.values()) > 0:
        objectives = {name: values / values[-1] for name, values in objectives.items()}
        label = "objective / its last value"
    return over_iterations("Objective", label, [Line(*run, i) for i, run in enumerate(objectives.items())])


def over_iterations(title: str, label: str, lines: list[Line]) -> Chart:
    """The y axis is logarithmic if the first line is positive and the values differ by more than a factor of ten.

    The x axis is logarithmic if there are many iterations, because most happens in the first ones.
    """
    leading = lines[0].values[np.isfinite(lines[0].values)]
    values = np.concatenate([line.values for line in lines])
    positive = values[(values > 0) & np.isfinite(values)]
    log_y = len(leading) > 0 and leading.min() > 0 and positive.max() / 10 > positive.min()
    count = max(len(line.values) for line in lines)
    ends = f" from {leading[0]:.6g} to {leading[-1]:.6g}" if len(leading) else " through no finite values"
    summary = f"Line chart of {plural(count - 1, 'iteration')}; the {lines[0].name} goes{ends}."
    return Chart(title, summary, tuple(lines), ("iteration", label), 0, count > FEW_ITERATIONS, bool(log_y))


class FeatureWeights:
    """The weights rho of the features, the heaviest first."""

    def __init__(self, rho: Array) -> None:
        self.order = np.argsort(-rho, kind="stable")  # (d,) features
        self.values = rho[self.order]
        self.silenced = int(np.count_nonzero(rho < SILENCED))  # features at the end of the order
        self.all_equal = bool(self.values[0] == self.values[-1])

    def chart(self) -> Chart:
        kept = len(self.values) - self.silenced
        is_kept = np.arange(len(self.values)) < kept
        name = f"{kept} others" if self.silenced else f"{kept} features, none silenced"
        lines = [Line(name, np.where(is_kept, self.values, np.nan), 0)]
        if self.silenced:
            name = f"{self.silenced} silenced (weight < {SILENCED:g})"
            lines.append(Line(name, np.where(is_kept, np.nan, self.values), 1))
        ends = f"from {self.values[0]:.3g} down to {self.values[-1]:.3g}"
        summary = f"The weights of {plural(len(self.values), 'feature')} {ends}; {self.silenced} are silenced."
        span = 0.0, max(1.0, float(self.values[0]))
        labels = "features, the heaviest first", "weight ρ"
        return Chart("Weights of the features", summary, tuple(lines), labels, 1, span=span)


def require_plane(W: Array, where: str) -> None:
    """Refuse coefficients that do not spread the samples over a plane; ``where`` names them in the message."""
    if min(W.shape) < 2:
        what = f"W is {W.shape[0]} x {W.shape[1]}, which spans no plane"
        raise DataError(where, what, "factorize with --k 2 or more")
    if np.ptp(W, axis=0).max() == 0:
        raise DataError(where, "all samples have the same coefficients", "factorize again, with another start")


def principal_plane(W: Array) -> tuple[Array, Array]:
    """The samples on the first two principal components of W (n, 2), and the shares of variance of these (2,)."""
    scale = np.abs(W).max() or 1  # squares stay finite
    centred = W / scale
    centred -= centred.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    plane = directions[:, :-3:-1]
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), np.arange(2)])  # eigenvectors have no sign of their own
    return centred @ plane * scale, np.maximum(variances[:-3:-1], 0) / np.maximum(variances, 0).sum()
