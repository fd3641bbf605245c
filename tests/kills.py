"""Kill runs at random moments, and look at what they leave.

    python -m tests.kills --kills 200 --seed 0

After each SIGKILL every file with the name of an output must be whole, no image may be lost, and the run, given again
until it ends, must leave what an undisturbed one does, to the last bit. Prints how many kills hit which kind of run,
and where.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from mccgr_cli.files.readers import load
from mccgr_cli.output.organize.manifest import NAME as MANIFEST

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures"
MCCGR = [sys.executable, "-m", "mccgr_cli"]
MOST_KILLS = 8  # of one run, which is then left alone
BEFORE, MOVED = "images before", "images moved"
IMAGES = 192
ROWS = 150_000  # of a matrix whose factors take some time to write
ROWS_A_SECOND = 2_500_000  # that are written and synced, about
TIMES = {"history/seconds", "seconds"}  # datasets that differ from run to run


@dataclass(frozen=True)
class Scenario:
    """A command, the kinds of the files it writes, and what it goes on with after it was killed."""

    name: str
    command: list[str]
    kinds: dict[str, str]  # of files by name
    again: Callable[[Path], list[str]]
    writing: float = 0.0  # kill it within so many seconds after it began to write; 0: at any moment
    template: str = ""  # a folder of which the run needs a copy; then all that is left there is compared
    is_done: Callable[[Path], bool] = lambda _: False  # whether it was killed so late that it need not go on


def scenarios(data: Path, rows: int = ROWS, images: Path = TEXTURES) -> list[Scenario]:
    small, large = str(data / "small.h5"), str(data / "large.h5")
    steps = ["--init", "random", "--tolerance", "0", "-q"]
    solver = ["--k", "4", "--restarts", "2", *steps]
    factorize = ["factorize", small, *solver, "--iterations", "1500", "-o", "F.h5", "--checkpoint", "C.h5"]
    often = [*factorize, "--checkpoint-every", "0.02"]
    wide = ["factorize", large, "--k", "20", "--method", "l2", "--normalize", "none", *steps]
    writes = [*wide, "--iterations", "1", "-o", "F.h5", "--overwrite"]
    keeps = [*wide, "--iterations", "8", "-o", "F.h5", "--checkpoint", "C.h5", "--checkpoint-every", "0"]
    extract = ["extract", str(images), "--words", "30", "--jobs", "2", "-q", "-o", "X.h5"]
    compare = ["experiment", small, "--k", "2,3", "--runs", "6", "--methods", "l2,mccgr", "--jobs", "2", "-q"]
    factors = {"F.h5": "factors", "C.h5": "checkpoint"}
    return [
        Scenario("factorize", often, factors, lambda folder: resumed(folder, often)),
        Scenario("extract", extract, {"X.h5": "matrix"}, lambda _: extract),
        Scenario("experiment", [*compare, "-o", "R.h5"], {"R.h5": "results"}, lambda _: [*compare, "-o", "R.h5"]),
        Scenario("writing a result", writes, factors, lambda _: writes, writing=rows / ROWS_A_SECOND),
        Scenario(
            "writing a checkpoint", keeps, factors, lambda folder: resumed(folder, keeps), writing=rows / ROWS_A_SECOND
        ),
        *organizing(),
    ]


def organizing() -> list[Scenario]:
    """Images that are put into the folders of their clusters, and back."""
    organize, out = ["organize", "C.csv", "--images", "images", "-o", "OUT", "-q"], {"OUT": "folder"}
    copy, move = [*organize, "--by", "copy"], [*organize, "--move"]
    undo = ["organize", "--undo", "OUT", "--images", "images", "-q"]  # the manifest of a copied folder is not trusted

    def is_undone(folder: Path) -> bool:
        return not (folder / "OUT" / MANIFEST).exists()

    return [
        Scenario("organize by copy", copy, out, lambda _: copy, 0.06, BEFORE),
        Scenario("organize by move", move, out, lambda _: move, 0.06, BEFORE),
        Scenario(
            "undo", undo, out, lambda _: undo, 0.06, MOVED, lambda folder: not (folder / "OUT" / MANIFEST).exists()
        ),
    ]


def resumed(folder: Path, command: list[str]) -> list[str]:
    return ["factorize", "--resume", "C.h5", "-q"] if (folder / "C.h5").exists() else command


def make_data(folder: Path, rows: int = ROWS) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 5
    X = rng.gamma(4.0, (np.kron(np.eye(5), np.ones((1, 8))) * 4 + 0.5)[labels] / 4)
    with h5py.File(folder / "small.h5", "w") as file:
        file["X"], file["labels"] = X, labels
    with h5py.File(folder / "large.h5", "w") as file:
        file["X"] = rng.random((rows, 24), dtype=np.float32)


def make_images(folder: Path) -> None:
    """Images with a table of their clusters, and the same after they were moved."""
    before, moved = folder / BEFORE, folder / MOVED
    shutil.copytree(TEXTURES, before / "images")
    names = sorted(str(path.relative_to(before / "images")) for path in before.rglob("*.png"))
    rows = [f"{name},{number % 7}" for number, name in enumerate(names)]
    (before / "C.csv").write_text("\n".join(["sample,cluster", *rows]))
    shutil.copytree(before, moved)
    subprocess.run(
        [*MCCGR, "organize", "C.csv", "--images", "images", "-o", "OUT", "--move", "-q"], cwd=moved, check=True
    )


def run(command: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MCCGR, *command], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def killed(
    process: subprocess.Popen[str], folder: Path, scenario: Scenario, rng: np.random.Generator, length: float
) -> bool:
    """Kill it at a random moment of what it takes, or of its writing; False if it had ended before."""
    if scenario.writing:
        skipped = int(rng.integers(1, 6)) if "--checkpoint" in scenario.command else 1
        for _ in range(skipped):
            while process.poll() is None and not is_writing(process, folder):
                time.sleep(0.0005)
            if skipped > 1:
                time.sleep(0.05)
        time.sleep(float(rng.uniform(0, scenario.writing)))
    else:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(float(rng.uniform(0, length)))
    process.kill()
    _, message = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(f"{scenario.name}: status {process.returncode}: {message}")
    return process.returncode != 0


def is_writing(process: subprocess.Popen[str], folder: Path) -> bool:
    """Whether it writes a file, or has locked the folder into which it puts images."""
    if list(folder.glob(".*.mccgr.tmp")):
        return True
    with contextlib.suppress(OSError):
        return any(f"process {process.pid} " in lock.read_text() for lock in folder.glob("OUT/.*.mccgr.lock"))
    return False


def check_outputs(folder: Path, scenario: Scenario) -> None:
    """Every file with the name of an output is whole, and no image is lost."""
    if scenario.template:
        assert len(images_in(folder)) == IMAGES, f"{scenario.name}: an image is lost"
        return
    for name, kind in scenario.kinds.items():
        if (folder / name).exists():
            load(str(folder / name), kinds=(kind,))


def images_in(folder: Path) -> set[bytes]:
    """The contents of all images, wherever they are."""
    return {path.read_bytes() for path in folder.rglob("*.png")}


def result(scenario: Scenario, folder: Path) -> dict[str, object]:
    """What a run leaves: all files, or the contents of its output."""
    if not scenario.template:
        return contents(folder / output_of(scenario))
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in files.items() if path.name != MANIFEST}


def contents(path: Path) -> dict[str, object]:
    """All that a file holds but times."""
    found: dict[str, object] = {}

    def take(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset) and name not in TIMES:
            found[name] = np.asarray(node[()]).tobytes() if node.dtype.kind != "O" else node[()].tolist()

    with h5py.File(path) as file:
        file.visititems(take)
        found["attributes"] = str(
            sorted((name, str(value)) for name, value in file.attrs.items() if name != "provenance")
        )
        found["parameters"] = json.loads(file.attrs["provenance"])["parameters"]
    return found


def undisturbed(scenario: Scenario, folder: Path) -> tuple[dict[str, object], float]:
    began = time.monotonic()
    process = run(scenario.command, folder)
    _, message = process.communicate()
    assert process.returncode == 0, message
    return result(scenario, folder), time.monotonic() - began


def output_of(scenario: Scenario) -> str:
    return next(iter(scenario.kinds))


def campaign(
    kills: int, seed: int, names: Container[str] | None = None, rows: int = ROWS, images: Path = TEXTURES
) -> Counter[str]:
    """So many kills, shared among the scenarios, or those of these names; an AssertionError for whatever is amiss.

    The matrix that is written and the images that are described can be smaller ones.
    """
    counts: Counter[str] = Counter()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        data.mkdir()
        make_data(data, rows)
        if names is None or any(scenario.name in names for scenario in organizing()):
            make_images(data)
        chosen = [scenario for scenario in scenarios(data, rows, images) if names is None or scenario.name in names]
        for number, scenario in enumerate(chosen):
            clean = folder_for(scenario, place)
            expected, length = undisturbed(scenario, clean)
            share = kills // len(chosen) + (number < kills % len(chosen))
            done = 0
            while done < share:
                folder = folder_for(scenario, place)
                done += until_it_ends(scenario, folder, rng, length, share - done, counts)
                assert result(scenario, folder) == expected, f"{scenario.name}: another result"
                left = {path.name for path in folder.iterdir()} - {output_of(scenario)}
                assert not left or scenario.template, f"{scenario.name}: left {left}"
                counts[f"{scenario.name}: ended with the same result"] += 1
    return counts


def folder_for(scenario: Scenario, place: str) -> Path:
    folder = Path(tempfile.mkdtemp(dir=place))
    if scenario.template:
        shutil.copytree(Path(place) / "data" / scenario.template, folder, dirs_exist_ok=True)
    return folder


def until_it_ends(
    scenario: Scenario, folder: Path, rng: np.random.Generator, length: float, most: int, counts: Counter[str]
) -> int:
    """Run it, kill it, let it go on; after so many kills it is left alone. How many kills there were."""
    command = scenario.command
    for kills in range(min(most, MOST_KILLS)):
        process = run(command, folder)
        if not killed(process, folder, scenario, rng, length):
            return kills
        counts[f"{scenario.name}: killed"] += 1
        counts[f"{scenario.name}: killed while it wrote"] += is_writing(process, folder)
        check_outputs(folder, scenario)
        if scenario.is_done(folder):
            shutil.rmtree(folder / "OUT", ignore_errors=True)  # empty but for the lock
            return kills + 1
        is_out = (folder / output_of(scenario)).exists() and not scenario.template
        if is_out and "--overwrite" not in scenario.command:
            finish(folder, scenario)
            return kills + 1
        command = scenario.again(folder)
    _, message = (process := run(command, folder)).communicate()
    assert process.returncode == 0, f"{scenario.name}: {message}"
    return min(most, MOST_KILLS)


def finish(folder: Path, scenario: Scenario) -> None:
    """The result was out when the kill came: only what it would have removed next may be left."""
    for path in folder.iterdir():
        if path.name != output_of(scenario):
            assert path.name.endswith((".part", ".mccgr.lock")) or path.name == "C.h5", path.name
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    for what, count in campaign(given.kills, given.seed).items():
        print(f"{count:5} {what}")
    print(f"{given.kills} kills in {time.monotonic() - began:.0f} s: every output whole, every result the same")


if __name__ == "__main__":
    main()
