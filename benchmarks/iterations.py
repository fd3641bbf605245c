"""When runs of experiments settle: the iteration from which the objective stays within 1 % of its last value.

python benchmarks/iterations.py RESULTS.h5...
"""

from __future__ import annotations

import sys

import numpy as np

from mccgr_cli.files.readers import load


def main() -> None:
    print("| results | method | median | 95 % of runs | within 50 | within 100 | converged |")
    print("|---|---|---|---|---|---|---|")
    for file in sys.argv[1:]:
        columns = load(file, kinds=("results",)).contents.datasets
        methods, settled = np.array(columns["method"]), np.asarray(columns["settled"])
        converged, name = np.asarray(columns["converged"]), file.rsplit("/", 1)[-1]
        for method in ("mccgr", "mcc", "grnmf", "l2"):
            mine = methods == method
            s = settled[mine]
            print(
                f"| {name} | {method} | {np.median(s):.0f} | {np.quantile(s, 0.95):.0f} | {np.mean(s < 50):.0%} "
                f"| {np.mean(s < 100):.0%} | {np.mean(converged[mine]):.0%} |"
            )


if __name__ == "__main__":
    main()
