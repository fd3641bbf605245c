"""The time that a report of many images takes, its size, and the time until a browser can use it.

    python -m benchmarks.report FOLDER [--copies N] [--clusters FILE] [--browser PATH]

FOLDER has a folder for each category. By default the clusters are artificial: samples scatter around a point for each
category; --clusters names a file of real clusters instead. --copies N shows every image N times, as if there were more
images. Ready means that the map is drawn and all buttons work. Frames are measured while the page scrolls from top to
end in 100 steps. Needs the extra 'test' for the browser.
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
        ready, painted, longest, middle = opened(page, given.browser)
    print(machine())
    columns = (
        "report (s)",
        "of all cores (s)",
        "page (MB)",
        "first paint (s)",
        "ready (s)",
        "longest frame (ms)",
        "median frame (ms)",
    )
    cells = (
        f"{taken:.1f}",
        f"{worked:.1f}",
        f"{size:.1f}",
        f"{painted:.2f}",
        f"{ready:.2f}",
        f"{longest:.0f}",
        f"{middle:.0f}",
    )
    print(table(columns, [cells]))


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
    datasets["sample_names"] = [image.name for image in images]
    return Contents("clusters", datasets, {"method": "mccgr", "cluster_assign": "kmeans"})


def report(clusters: Path, folder: Path, page: Path) -> tuple[float, float]:
    """Seconds of the whole command: elapsed time, and processor time of all cores."""
    arguments = ["report", str(clusters), "--images", str(folder), "-o", str(page), "--jobs", str(usable_cores())]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mccgr_cli", *arguments, "--quiet"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def opened(page: Path, browser: str) -> tuple[float, float, float, float]:
    """Medians of five visits: seconds until ready and until first paint; longest and median frame, all sheets open."""
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
        tab.evaluate(OPEN_ALL)
        frames = tab.evaluate(FRAMES)
        chromium.close()
    return statistics.median(ready), statistics.median(painted), max(frames), statistics.median(frames)


if __name__ == "__main__":
    main()
