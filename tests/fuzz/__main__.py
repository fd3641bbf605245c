"""``python -m tests.fuzz --cases 10000 --seed 1 --jobs 2``"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Threads do not survive a fork; libraries ask for these when they are imported, which is below.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share them (default: %(default)s)")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="only this one, told in full")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="with --case: leave its files here")
    parser.add_argument("--found", action="store_true", help="those that failed before; prints JSON")
    given = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))

    from . import campaign

    if given.found:
        return campaign.replay()
    if given.case is not None:
        return campaign.show_case(given.seed, given.case, given.keep)
    return campaign.run_cases(given.seed, range(given.first, given.first + given.cases), given.jobs)


if __name__ == "__main__":
    sys.exit(main())
