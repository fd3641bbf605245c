"""Write every other class of a matrix to one file and the rest to another.

python benchmarks/halves.py X.h5 first.h5 second.h5
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import load


def main() -> None:
    contents = load(sys.argv[1]).contents
    X, labels, names = contents["X"].load(), contents["labels"], contents["label_names"]
    for output, first in zip(sys.argv[2:4], (0, 1), strict=True):
        classes = np.unique(labels)[first::2]
        some = np.isin(labels, classes)
        codes = np.searchsorted(classes, labels[some])
        half = {"X": X[some], "labels": codes, "label_names": [names[code] for code in classes]}
        Path(output).write_bytes(encode(Contents("matrix", half)))


if __name__ == "__main__":
    main()
