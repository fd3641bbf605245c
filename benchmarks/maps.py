"""How well the map of a report keeps similar samples together, for the rows of W unchanged and scaled in other ways.

    python -m benchmarks.maps CLUSTERS.h5...

Prints the share of the ten nearest samples on the map that are in the same cluster, and the trustworthiness of the map
(Venna and Kaski 2001) for the unchanged rows of W.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from benchmarks.timing import table
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.files.readers import load
from mccgr_cli.output.report.sample_map import lay_out

NEAREST = 10
WAYS = {"unchanged": "none", "unit length": "l2", "unit sum": "l1"}


def kept(W: Array, assignments: Array, how: str) -> str:
    points = lay_out(normalize(W.copy(), how), by_direction=False).points
    near = NearestNeighbors(n_neighbors=NEAREST + 1).fit(points).kneighbors(points, return_distance=False)[:, 1:]
    together = float((assignments[near] == assignments[:, None]).mean())
    return f"{together:.3f}, {trustworthiness(W, points, n_neighbors=NEAREST):.3f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("clusters", nargs="+")
    rows = []
    for name in options.parse_args().clusters:
        contents = load(name, kinds=("clusters",)).contents
        W, assignments = contents["W"].astype(np.float64), contents["assignments"]
        rows.append([f"{name}, {len(W)}", *(kept(W, assignments, how) for how in WAYS.values())])
    print(table(["samples", *WAYS], rows))


if __name__ == "__main__":
    main()
