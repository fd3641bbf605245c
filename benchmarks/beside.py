"""Compare accuracy and NMI of an experiment with those of the paper for Caltech-101, as Markdown tables.

python benchmarks/beside.py {300,1000} DEFAULTS.h5 [PAPER_SETTINGS.h5]
"""

from __future__ import annotations

import sys

import numpy as np

from mccgr_cli.files.readers import load
from mccgr_cli.workflow.comparison import compare

# Columns of the paper's tables 1 to 4 for Caltech-101, K = 2 to 10: GRNMF and MCCGR.
PAPER = {
    ("300", "accuracy"): {
        "grnmf": (0.735, 0.584, 0.537, 0.459, 0.439, 0.402, 0.379, 0.361, 0.339),
        "mccgr": (0.770, 0.625, 0.579, 0.477, 0.468, 0.416, 0.383, 0.375, 0.343),
    },
    ("1000", "accuracy"): {
        "grnmf": (0.703, 0.593, 0.502, 0.461, 0.438, 0.409, 0.396, 0.348, 0.356),
        "mccgr": (0.754, 0.621, 0.520, 0.491, 0.458, 0.423, 0.415, 0.367, 0.358),
    },
    ("300", "nmi"): {
        "grnmf": (0.247, 0.244, 0.244, 0.251, 0.269, 0.272, 0.267, 0.267, 0.267),
        "mccgr": (0.260, 0.259, 0.276, 0.263, 0.279, 0.281, 0.285, 0.275, 0.271),
    },
    ("1000", "nmi"): {
        "grnmf": (0.202, 0.264, 0.237, 0.226, 0.267, 0.264, 0.288, 0.251, 0.267),
        "mccgr": (0.228, 0.285, 0.258, 0.241, 0.276, 0.279, 0.301, 0.267, 0.277),
    },
}


def main() -> None:
    words, files = sys.argv[1], sys.argv[2:]
    ours = [load(file, kinds=("results",)).contents for file in files]
    for score in ("accuracy", "nmi"):
        columns = {f"{name}, paper": np.array(values) for name, values in PAPER[words, score].items()}
        for label, contents in zip(("defaults", "`--preset paper`"), ours, strict=False):
            found = compare(contents.datasets, score)
            for name in ("grnmf", "mccgr"):
                columns[f"{name}, {label}"] = found.means[:, found.variants.index(name)]
        print(f"| {score}, {words} words | {' | '.join(columns)} |")
        print("|---" * (1 + len(columns)) + "|")
        for row, k in enumerate(range(2, 11)):
            print(f"| {k} | {' | '.join(f'{values[row]:.3f}' for values in columns.values())} |")
        print(f"| mean | {' | '.join(f'{values.mean():.3f}' for values in columns.values())} |")
        gap = columns["mccgr, defaults"] - columns["mccgr, paper"]
        print(f"\nmccgr, defaults, minus mccgr, paper: mean {gap.mean():+.3f}, smallest {gap.min():+.3f}\n")


if __name__ == "__main__":
    main()
