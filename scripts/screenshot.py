"""Make the screenshot of a report for the README: ``python scripts/screenshot.py demo/report.html``."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUTPUT = Path(__file__).parent.parent / "docs" / "figures" / "report.webp"
WIDTH, HEIGHT, GAP = 1280, 1700, 24
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def screenshots(page: Path) -> list[Image.Image]:
    """The top of the page in light colours, and its clusters in dark ones."""
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    taken: list[Image.Image] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        for scheme, place in (("light", "body"), ("dark", "#clusters")):
            shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)  # type: ignore[arg-type]
            shown.goto(page.resolve().as_uri())
            shown.locator(place).evaluate("element => element.scrollIntoView()")
            shown.wait_for_timeout(500)
            taken.append(Image.open(io.BytesIO(shown.screenshot())))
        browser.close()
    return taken


if __name__ == "__main__":
    both = Image.new("RGB", (2 * WIDTH + GAP, HEIGHT), "white")
    for number, one in enumerate(screenshots(Path(sys.argv[1]))):
        both.paste(one, (number * (WIDTH + GAP), 0))
    both.resize((both.width // 2, both.height // 2), Image.Resampling.LANCZOS).save(OUTPUT, quality=82, method=6)
