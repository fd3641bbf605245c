"""Compare our dense SIFT with OpenCV's at the same points: descriptors per second, and their similarity.

    python benchmarks/extract.py FOLDER/ [--images 50] [--rounds 5]
    python benchmarks/extract.py FOLDER/ --whole

Both run on one core in turn, on the same decoded images; times are medians of the rounds. Run nothing else meanwhile.
OpenCV describes a keypoint of radius r (its ``size`` is the diameter 2r) by a patch that reaches 6r to each side, so
most of its time goes into pixels. With ``mccgr extract --radii r`` a patch reaches r. Both are measured: the radii 4,
8, 12, 16 of OpenCV's keypoints, and of patches.

--whole runs the command on all images, by visual words and by the ready network with each engine that is installed, in
one process and with one process per core. It compares the results and measures the memory of all processes together.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import h5py
import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images import sift
from mccgr_cli.images.decode import decode
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.images.network.engines import ENGINES
from mccgr_cli.images.network.ready import READY
from mccgr_cli.system.processes import usable_cores

MODULES = {"onnxruntime": "onnxruntime", "opencv": "cv2"}  # of the engines
STEP = 10
RADII = (4, 8, 12, 16)
REACH = 6  # of OpenCV's patches, in radii of a keypoint
LEAST_NORM = 1.0  # OpenCV's descriptors have length 512; a shorter one is a patch without gradients


def keypoints(grey: Array, radii: tuple[int, ...]) -> list[cv2.KeyPoint]:
    """Upright keypoints at the points of ``sift.dense``, of the size of its patches."""
    rows, columns = sift.grid(grey.shape[0], STEP), sift.grid(grey.shape[1], STEP)
    return [
        cv2.KeyPoint(float(x), float(y), 2 * radius / REACH, 0, 0, 0) for radius in radii for y in rows for x in columns
    ]


def compare(images: list[Array], radii: tuple[int, ...], rounds: int) -> None:
    opencv = cv2.SIFT.create()
    bytes_of = [np.rint(grey).astype(np.uint8) for grey in images]
    points = [keypoints(grey, radii) for grey in images]
    number = sum(map(len, points))
    ours, theirs = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        for grey in images:
            for _ in sift.dense(grey, STEP, radii, 0.0):
                pass
        middle = time.perf_counter()
        for grey, at in zip(bytes_of, points, strict=True):
            opencv.compute(grey, at)
        ours.append(number / (middle - began))
        theirs.append(number / (time.perf_counter() - middle))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    similar, flat = similarity(images, bytes_of, points, radii)
    sizes = ", ".join(f"{2 * r / REACH:.3g}" for r in radii)
    print(f"patches of radii {radii} pixels (sizes of OpenCV's keypoints: {sizes}); {number} descriptors")
    print(f"  mccgr {statistics.median(ours):.0f}/s, OpenCV {statistics.median(theirs):.0f}/s, ratio", end=" ")
    print(f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    percentiles = ", ".join(f"{p} % {np.percentile(similar, p):.5f}" for p in (50, 5, 1, 0.1))
    print(f"  cosine: {percentiles}; without flat patches, {flat:.1%} of all")


def similarity(
    images: list[Array], bytes_of: list[Array], points: list[list[cv2.KeyPoint]], radii: tuple[int, ...]
) -> tuple[Array, float]:
    opencv = cv2.SIFT.create()
    cosines, flat = [], 0
    for grey, whole, at in zip(images, bytes_of, points, strict=True):
        ours = np.concatenate(list(sift.dense(grey, STEP, radii, 0.0)))
        _, theirs = opencv.compute(whole, at)
        lengths = np.linalg.norm(theirs, axis=1)
        described = lengths > LEAST_NORM
        flat += int((~described).sum())
        ours, theirs, lengths = ours[described], theirs[described], lengths[described]
        cosines.append(np.einsum("ij,ij->i", ours, theirs) / (lengths * np.linalg.norm(ours, axis=1)))
    return np.concatenate(cosines), flat / sum(map(len, points))


def processes_of(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [p for child in task.read_text().split() for p in processes_of(int(child))]
        except OSError:  # it has just ended
            continue
    return found


def resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def whole(folder_of_images: str, words: int) -> None:
    """Time, memory and equality of the results of all ways to describe images."""
    engines = [name for name in ENGINES if importlib.util.find_spec(MODULES[name]) is not None]
    ways = {f"{words} words": ["--words", str(words)]}
    ways |= {f"{name}, {engine}": ["--model", name, engine] for name in READY for engine in engines}
    print("| | processes | images | seconds | images/s | peak memory of all processes | same X |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for way, options in ways.items():
            rows: list[bytes] = []
            for jobs in (0, usable_cores()):
                output = Path(folder) / "X.h5"
                taken, peak = measure([*options[:2], "--jobs", str(jobs)], options[2:], folder_of_images, output)
                with h5py.File(output) as file:
                    rows.append(file["X"][()].tobytes())
                    count = len(file["X"])
                same = "" if len(rows) == 1 else "yes" if rows[0] == rows[1] else "NO"
                speed = f"{taken:.1f} | {count / taken:.0f} | {peak / 1e6:.0f} MB"
                print(f"| {way} | {jobs or 'none of its own'} | {count} | {speed} | {same} |", flush=True)


def measure(options: list[str], engine: list[str], images: str, output: Path) -> tuple[float, int]:
    """Run ``mccgr extract``; return its seconds and the most memory of all its processes together."""
    chosen = f"describe.installed_engine = lambda: {engine[0]!r};" if engine else ""
    program = f"from mccgr_cli.images.network import describe; {chosen} from mccgr_cli.__main__ import run; run()"
    command = [sys.executable, "-c", program, "extract", images, *options, "-q", "--overwrite", "-o", str(output)]
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        peak = max(peak, sum(resident(pid) for pid in processes_of(process.pid)))
        time.sleep(0.02)
    if process.returncode:
        sys.exit("mccgr extract failed")
    return time.perf_counter() - began, peak


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder")
    options.add_argument("--images", type=int, default=50, help="number of images, evenly from all")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--whole", action="store_true")
    options.add_argument("--words", type=int, default=300, help="for --whole")
    given = options.parse_args()
    if given.whole:
        whole(given.folder, given.words)
        return
    found = images_in_folder(given.folder, labelled=False).images
    chosen = found[:: max(1, len(found) // given.images)][: given.images]
    images = [decode(image.path, 500, 10**8).grey for image in chosen]
    print(f"{len(images)} images, OpenCV {cv2.__version__}, numpy {np.__version__}, one thread each")
    cv2.setNumThreads(1)
    with threadpool_limits(1):
        compare(images, tuple(REACH * radius for radius in RADII), given.rounds)
        compare(images, RADII, given.rounds)


if __name__ == "__main__":
    main()
