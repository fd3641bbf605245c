"""A browser for the tests of the report, and what they ask of a page in it."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager

import pytest
from conftest import run_mccgr
from reports import save

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
# Pixels of the map, by way of a copy that is made for reading.
PIXELS = """
    const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
"""
# The first that is painted, in pixels of the window; and how many are.
A_MARK = (
    f"() => {{ {PIXELS}"
    """
    const scale = canvas.width / box.width;
    for (let i = 3; i < pixels.length; i += 4)
        if (pixels[i] > 150) {
            const place = (i - 3) / 4;
            return [box.left + (place % canvas.width) / scale, box.top + Math.floor(place / canvas.width) / scale];
        }
    return null;
}"""
)
PAINTED = (
    f"() => {{ {PIXELS}"
    """
    let painted = 0;
    for (let i = 3; i < pixels.length; i += 4) painted += pixels[i] > 150;
    return painted;
}"""
)
# Text that stands out too little: less than 4.5 to 1 (WCAG AA), against the first background below it.
FAINT = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const over = (top, below) => {
        const alpha = top[3] ?? 1;
        return [0, 1, 2].map((i) => alpha * top[i] + (1 - alpha) * below[i]);
    };
    const ground = (element) => {
        const own = parse(getComputedStyle(element).backgroundColor);
        if ((own[3] ?? 1) === 1) return own;
        return over(own, element.parentElement ? ground(element.parentElement) : [255, 255, 255]);
    };
    const found = new Set();
    for (const element of document.querySelectorAll("body *")) {
        const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!text || !element.checkVisibility() || element.closest("script, noscript, :disabled")) continue;
        const style = getComputedStyle(element), svg = element instanceof SVGElement;
        const below = ground(element), ink = over(parse(svg ? style.fill : style.color), below);
        const [high, low] = [light(ink), light(below)].sort((a, b) => b - a);
        if ((high + 0.05) / (low + 0.05) < 4.5) found.add(`${element.tagName}.${element.getAttribute("class")}`);
    }
    return [...found];
}"""


def browser_path():
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium here, and CI must look at the page")
        pytest.skip("no Chromium here")
    return found


@contextmanager
def started_browser():
    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


def report(folder, contents, *arguments):
    clusters = save(folder / "C.h5", contents)
    outcome = run_mccgr("report", clusters, "-q", "--jobs", 0, *arguments, "-o", folder / "page.html")
    assert outcome.status == 0, outcome.stderr
    return folder / "page.html"


class Visits:
    """Pages, each in a context of its own. What they complain of or ask for is kept."""

    def __init__(self, browser):
        self.browser, self.contexts, self.faults = browser, [], []

    def go(self, path, width=1280, height=900, fragment="", **options):
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.faults.append(message.text))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        asked = f"file://{path}"
        page.on("request", lambda request: self.faults.append(request.url) if not mine(request.url, asked) else None)
        page.on("dialog", self.answer)
        page.goto(asked + fragment)
        page.wait_for_selector("html[data-ready]")
        return page

    def answer(self, dialog):
        """A page that is left with changes asks first; no other dialog is expected."""
        if dialog.type != "beforeunload":
            self.faults.append(f"dialog {dialog.message}")
        dialog.accept()

    def end(self):
        for context in self.contexts:
            context.close()
        assert self.faults == []


def mine(url, asked):
    return url.partition("#")[0] == asked or url.startswith(("data:", "blob:"))


def focused(page, what):
    return page.evaluate(f"document.activeElement.{what}")


def to_the_map(page):
    page.locator("#map").evaluate("element => element.scrollIntoView({behavior: 'instant'})")
    return page.evaluate(A_MARK)


def data_of(page):
    return json.loads(page.locator("#data").text_content())
