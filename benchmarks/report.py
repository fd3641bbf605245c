"""The time that a report of many images takes, its size, and the time until a browser can use it.

    python -m benchmarks.report FOLDER [--copies N] [--clusters FILE] [--browser PATH]

FOLDER has a folder for each category. By default the clusters are artificial: samples scatter around a point for each
category; --clusters names a file of real clusters instead. --copies N shows every image N times, as if there were more
images. Ready means that the map is drawn and all buttons work. Frames are measured while the page scrolls from top to
end in 100 steps. A search is measured from a letter that is typed to the frame that shows its results; a step of the
zoom from the key to its frame. Needs the extra 'test' for the browser.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.timing import machine, table
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.system.processes import usable_cores

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
FRAMES = """async () => {
    const gaps = [], height = document.documentElement.scrollHeight;
    let before = performance.now();
    for (let step = 0; step < 100; step += 1) {
        scrollTo({ top: (height * step) / 100, behavior: "instant" });
        await new Promise(requestAnimationFrame);
        gaps.push(performance.now() - before);
        before = performance.now();
    }
    return gaps;
}"""
# From an action to the end of the frame that shows it.
UNTIL_SHOWN = """async (act) => {
    const began = performance.now();
    act();
    await new Promise(requestAnimationFrame);
    await new Promise((shown) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = shown;
        port2.postMessage(0);
    });
    return performance.now() - began;
}"""
# Names that all samples, many, few and no samples have, letter by letter.
SEARCHES = f"""async () => {{
    const until = {UNTIL_SHOWN}, box = document.getElementById("search"), taken = [];
    box.focus({{ preventScroll: true }});
    await new Promise(requestAnimationFrame);
    for (const query of ["image_0012", "a", "airplanes 0", "cougar", "nowhere"])
        for (let letters = 1; letters <= query.length; letters += 1) {{
            box.value = query.slice(0, letters);
            taken.push(await until(() => box.dispatchEvent(new InputEvent("input"))));
        }}
    box.value = "";
    box.dispatchEvent(new InputEvent("input"));
    return taken;
}}"""
ZOOMS = f"""async () => {{
    const until = {UNTIL_SHOWN}, canvas = document.getElementById("canvas"), taken = [];
    for (const key of [..."++++++++----"])
        taken.push(await until(() => canvas.dispatchEvent(new KeyboardEvent("keydown", {{ key }}))));
    return taken;
}}"""
OPEN_ALL = "() => { for (const button of document.querySelectorAll('button.more')) button.click(); }"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--copies", type=int, default=1)
    options.add_argument("--clusters", type=Path)
    options.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        page, clusters = Path(place) / "report.html", given.clusters
        if clusters is None:
            clusters = Path(place) / "clusters.h5"
            clusters.write_bytes(encode(artificial_clusters(given.folder, given.copies)))
        taken, worked = report(clusters, given.folder, page)
        size = page.stat().st_size / 1e6
        visits = opened(page, given.browser)
    print(machine())
    cells = {
        "report (s)": f"{taken:.1f}",
        "of all cores (s)": f"{worked:.1f}",
        "page (MB)": f"{size:.1f}",
        "first paint (s)": f"{visits.painted:.2f}",
        "ready (s)": f"{visits.ready:.2f}",
        "median, longest frame (ms)": median_and_most(visits.frames),
        "median, longest search (ms)": median_and_most(visits.searches),
        "median, longest zoom (ms)": median_and_most(visits.zooms),
    }
    print(table(list(cells), [list(cells.values())]))


def median_and_most(values: list[float]) -> str:
    return f"{statistics.median(values):.0f}, {max(values):.0f}"


def artificial_clusters(folder: Path, copies: int) -> Contents:
    """Artificial clusters of the images in a folder."""
    images = images_in_folder(str(folder)).images * copies
    names, labels = np.unique([str(image.label) for image in images], return_inverse=True)
    rng, k = np.random.default_rng(0), len(names)
    W = rng.gamma(2.0, np.eye(k)[labels] + 0.2)
    datasets: dict[str, Any] = {"W": W, "H": rng.random((k, 300)), "rho": rng.random(300), "labels": labels}
    history = ("objective", "data", "graph", "sigma", "seconds")
    datasets |= {f"history/{name}": np.geomspace(100, 1, 200) for name in history}
    datasets |= {"assignments": W.argmax(axis=1), "label_names": names.tolist()}
    datasets |= {"sample_names": [image.name for image in images], "outlier": rng.gamma(20, 1 / 20, len(images))}
    return Contents("clusters", datasets, {"method": "mccgr", "cluster_assign": "kmeans"})


def report(clusters: Path, folder: Path, page: Path) -> tuple[float, float]:
    """Seconds of the whole command: elapsed time, and processor time of all cores."""
    arguments = ["report", str(clusters), "--images", str(folder), "-o", str(page), "--jobs", str(usable_cores())]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mccgr_cli", *arguments, "--quiet"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Visits:
    """Medians of five visits, in seconds; and of the last visit, in milliseconds, all that was measured."""

    ready: float
    painted: float  # first paint
    searches: list[float]
    zooms: list[float]
    frames: list[float]  # with all sheets open


def opened(page: Path, browser: str) -> Visits:
    ready, painted = [], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        for _ in range(5):
            tab = chromium.new_page(viewport={"width": 1280, "height": 900})
            began = time.perf_counter()
            tab.goto(f"file://{page.resolve()}", wait_until="commit")
            tab.wait_for_selector("html[data-ready]")
            ready.append(time.perf_counter() - began)
            paints = "performance.getEntriesByType('paint').map((one) => one.startTime)"
            painted.append(max(tab.evaluate(paints), default=0.0) / 1000)
            if len(ready) < 5:
                tab.close()
        tab.wait_for_load_state()
        tab.locator("#map").scroll_into_view_if_needed()
        searches, zooms = tab.evaluate(SEARCHES), tab.evaluate(ZOOMS)
        tab.evaluate(OPEN_ALL)
        frames = tab.evaluate(FRAMES)
        chromium.close()
    return Visits(statistics.median(ready), statistics.median(painted), searches, zooms, frames)


if __name__ == "__main__":
    main()
