"""The effect of each default of mccgr, on two halves of the classes, as a Markdown table.

    python benchmarks/ablation.py FOLDER

FOLDER has two experiments for each NAME, NAME.chosen.h5 and NAME.other.h5, on the same draws; one NAME is "defaults".
The table has differences of means over all draws, with the standard error of the paired difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mccgr_cli.files.readers import load
from mccgr_cli.workflow.comparison import compare

HALVES = ("chosen", "other")
SCORES = ("accuracy", "nmi")


def main() -> None:
    folder = Path(sys.argv[1])
    names = sorted(path.name.removesuffix(".chosen.h5") for path in folder.glob("*.chosen.h5"))
    reference = {(half, score): scores(folder, "defaults", half, score) for half in HALVES for score in SCORES}
    titles = [f"{score}, {half} half" for half in HALVES for score in SCORES]
    print(f"| changed | {' | '.join(titles)} |")
    print("|---" * 5 + "|")
    own = [f"{values.mean():.3f}" for values in reference.values()]
    print(f"| nothing | {' | '.join(own)} |")
    for name in names:
        if name == "defaults":
            continue
        cells = []
        for (half, score), values in reference.items():
            gap = scores(folder, name, half, score) - values
            cells.append(f"{gap.mean():+.3f} ±{gap.std(ddof=1) / np.sqrt(len(gap)):.3f}")
        print(f"| {name} | {' | '.join(cells)} |")


def scores(folder: Path, name: str, half: str, score: str) -> np.ndarray:
    """The scores of all draws, ordered by k."""
    found = compare(load(str(folder / f"{name}.{half}.h5"), kinds=("results",)).contents.datasets, score)
    return np.concatenate([row[0] for row in found.values])


if __name__ == "__main__":
    main()
