"""Make all tables of docs/PERFORMANCE.md and the one of docs/ORGANIZE.md, or only the named ones.

    python -m benchmarks [iteration objective precision neighbours growth small solvers organize] [--data DATA]
                         [--figures DIR]
    python -m benchmarks suite DATA ...      the tables of docs/QUALITY.md; see python -m benchmarks suite --help
    python -m benchmarks texts FILE ...      clusters of texts, with and without tf-idf; see its --help
    python -m benchmarks rank-time --before CHECKOUT    mccgr rank in an older version and in this one
    python -m benchmarks display ...         what a terminal shows of a command, and when it is silent
    python -m benchmarks timelimit ...       whether a long run ends in time, and is continued to the same bytes

DATA has matrices/COIL20.mat, matrices/TDT2.mat, and caltech101/ with images. Without --data, the parts that need these
files are left out. All programs are compared in the same run: run nothing else meanwhile. It takes about 25 minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    display,
    growth,
    iteration,
    neighbours,
    objective,
    organize,
    precision,
    rank_time,
    small,
    solvers,
    suite,
    texts,
    timelimit,
)
from benchmarks.timing import machine


def main() -> None:
    # These have options of their own.
    apart = {"suite": suite.main, "display": display.main, "texts": texts.main, "rank-time": rank_time.main}
    apart["timelimit"] = timelimit.main
    if sys.argv[1:2] and sys.argv[1] in apart:
        apart[sys.argv[1]](sys.argv[2:])
        return
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*")
    options.add_argument("--data", type=Path)
    options.add_argument("--figures", type=Path, help="folder for the figure of growth")
    given = options.parse_args()
    matrices = [] if given.data is None else ["--data", str(given.data / "matrices")]
    images = [] if given.data is None else ["--images", str(given.data / "caltech101")]
    figures = [] if given.figures is None else ["--figure", str(given.figures / "growth.svg")]
    parts = {
        "iteration": lambda: iteration.main([]),
        "objective": lambda: objective.main(matrices),
        "precision": lambda: precision.main(matrices),
        "neighbours": lambda: neighbours.main(images),
        "growth": lambda: growth.main(figures),
        "small": lambda: small.main([]),
        "solvers": lambda: solvers.main(matrices),
        "organize": lambda: organize.main([]),
    }
    unknown = set(given.parts) - set(parts)
    if unknown:
        options.error(f"no such part: {', '.join(sorted(unknown))}")
    print(machine(), flush=True)
    for name in given.parts or parts:
        print(f"\n## {name}\n", flush=True)
        parts[name]()


if __name__ == "__main__":
    main()
