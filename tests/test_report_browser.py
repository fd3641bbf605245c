"""The page of mccgr report in a real browser: it needs nothing else, answers mouse and keyboard, and fits."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
from conftest import run_mccgr
from reports import clustering, images_of, save

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


@pytest.fixture(scope="module")
def browser():
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


@pytest.fixture(scope="module")
def with_images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("with_images")
    contents = clustering(n=300)
    return report(folder, contents, "--images", images_of(folder / "insects", contents))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Without images, with names that are long or mean."""
    names = [("</script><img src=x onerror=alert(1)>", "n" * 300, "\u202eevil")[i % 3] for i in range(90)]
    labels = ["<b>ant</b>", "b" * 200, '"cat"']
    contents = clustering(sample_names=names, label_names=labels, feature_names=["f" * 300] * 12)
    return report(tmp_path_factory.mktemp("plain"), contents, "--title", "T" * 200)


@pytest.fixture
def visit(browser):
    """Open a page in a context of its own. Whatever it complains of or asks for is a failure."""
    contexts, faults = [], []

    def go(path, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
        asked = f"file://{path}"
        page.on("request", lambda request: faults.append(request.url) if not mine(request.url, asked) else None)
        page.goto(asked)
        page.wait_for_selector("html[data-ready]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert faults == []


def mine(url, asked):
    return url.partition("#")[0] == asked or url.startswith("data:")


def focused(page, what):
    return page.evaluate(f"document.activeElement.{what}")


def to_the_map(page):
    page.locator("#map").evaluate("element => element.scrollIntoView({behavior: 'instant'})")
    return page.evaluate(A_MARK)


def data_of(page):
    return json.loads(page.locator("#data").text_content())


def test_hovering_shows_the_image_and_a_click_opens_its_cluster(visit, with_images):
    page = visit(with_images, reduced_motion="reduce")
    x, y = to_the_map(page)
    page.mouse.move(x, y)
    card = page.locator("#card")
    assert card.is_visible()
    assert card.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 60
    box = card.bounding_box()
    assert box["x"] >= 0
    assert box["y"] >= 0
    assert box["x"] + box["width"] <= 1280
    assert box["y"] + box["height"] <= 900
    name, cluster = re.match(r"(.*), cluster (\d+), class", page.locator("#reading").text_content()).groups()
    page.mouse.click(x, y)
    chosen = page.locator(".cluster.chosen")
    assert chosen.get_attribute("id") == f"cluster-{cluster}"
    assert chosen.locator(".tile.chosen img").get_attribute("alt") == name
    assert chosen.locator(".tile.chosen").evaluate("tile => tile === document.activeElement")
    assert 0 <= chosen.locator(".tile.chosen").bounding_box()["y"] < 900


def test_the_keyboard_reaches_everything(visit, with_images):
    page = visit(with_images, reduced_motion="reduce")
    page.keyboard.press("Tab")
    assert focused(page, "textContent") == "Skip to the contents"
    page.keyboard.press("Enter")
    assert focused(page, "id") == "main"
    stops = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        stops.add(focused(page, "id") or focused(page, "className") or focused(page, "tagName"))
    assert {"canvas", "tile", "SUMMARY", "scroll", "A", "BUTTON"} <= stops

    page.focus("#canvas")
    read = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        read.append(page.locator("#reading").text_content())
    assert all("cluster" in one for one in read)
    assert len(set(read)) >= 2
    page.keyboard.press("Enter")
    assert page.locator(".cluster.chosen").count() == 1
    assert "tile" in focused(page, "className")

    page.focus("#cluster-0 .tile >> nth=0")
    page.keyboard.press("Enter")
    viewer = page.locator("#viewer")
    assert viewer.is_visible()
    first = page.locator("#viewer-title").text_content()
    page.keyboard.press("ArrowRight")
    second = page.locator("#viewer-title").text_content()
    assert first != second
    page.keyboard.press("Escape")
    assert not viewer.is_visible()
    returned = "name => document.activeElement.querySelector('img')?.alt === name"
    page.wait_for_function(returned, arg=second)  # a dialog tells that it has closed a moment later


def test_a_button_shows_the_rest_of_a_sheet(visit, with_images):
    page = visit(with_images)
    part = page.locator("#cluster-1")
    total = next(one["count"] for one in data_of(page)["clusters"] if one["number"] == 1)
    assert part.locator(".tile").count() == 30
    part.locator("button.more").click()
    for _ in range(5):
        part.locator(".between").scroll_into_view_if_needed()
    page.wait_for_function("total => document.querySelectorAll('#cluster-1 .tile').length === total", arg=total)
    places = part.locator(".tile").evaluate_all("tiles => tiles.map((tile) => Number(tile.dataset.i))")
    assert places == list(range(places[0], places[0] + total))
    assert part.locator("img").evaluate_all("images => images.every((image) => image.complete && image.naturalWidth)")


def test_the_legend_switches_groups_off_and_colours_by_class(visit, with_images):
    page = visit(with_images)
    to_the_map(page)
    whole = page.evaluate(PAINTED)
    first = page.locator("#legend button").first
    first.click()
    assert first.get_attribute("aria-pressed") == "false"
    assert 0 < page.evaluate(PAINTED) < whole
    page.locator("[data-every=none]").click()
    assert page.evaluate(PAINTED) == 0
    page.locator("[data-colour=class]").click()
    assert page.locator("#legend .name").all_text_contents() == ["ant", "bee", "cat"]
    assert page.evaluate(PAINTED) > 0


def test_dark_and_light_are_followed_switched_and_remembered(visit, with_images):
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light, dark = (visit(with_images, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(ground) != dark.evaluate(ground)
    pale = light.evaluate(ground)
    light.locator("#theme").click()
    assert light.evaluate(ground) == dark.evaluate(ground)
    light.reload()
    light.wait_for_selector("html[data-ready]")
    assert light.evaluate(ground) == dark.evaluate(ground) != pale


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out(visit, with_images, plain, scheme):
    for path in (with_images, plain):
        page = visit(path, color_scheme=scheme)
        page.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        assert page.evaluate(FAINT) == []


@pytest.mark.parametrize("width", [360, 900, 1920])
def test_nothing_sticks_out_at_any_width(visit, with_images, plain, width):
    for path in (with_images, plain):
        page = visit(path, width=width)
        page.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints_on_white_without_buttons(visit, with_images):
    page = visit(with_images, color_scheme="dark")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav.sections").is_visible()
    assert not page.locator("button.more").first.is_visible()
    assert page.locator("#cluster-0 .tile").first.is_visible()


def test_assistive_technology_finds_names_and_landmarks(visit, with_images, plain):
    for path in (with_images, plain):
        page = visit(path)
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        found = [
            (node["role"]["value"], (node.get("name") or {}).get("value", "").strip())
            for node in tree
            if not node.get("ignored") and "role" in node
        ]
        named = {"button", "link", "image", "img", "application", "region", "navigation", "graphics-document"}
        assert [role for role, name in found if role in named and not name] == []
        roles = [role for role, _ in found]
        assert roles.count("main") == 1
        assert roles.count("banner") == 1
        assert {"navigation", "contentinfo", "application", "table", "columnheader", "rowheader"} <= set(roles)
        references = "all => all.flatMap((one) => (one.getAttribute('aria-labelledby') ?? one.getAttribute("
        references += "'aria-describedby')).split(' ')).filter((id) => !document.getElementById(id))"
        assert page.locator("[aria-labelledby], [aria-describedby]").evaluate_all(references) == []


def test_without_scripts_the_page_can_still_be_read(browser, with_images):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"file://{with_images}")
    assert page.locator("#cluster-0 img").first.is_visible()
    assert not page.locator("#canvas").is_visible()
    assert not page.locator("button.more").first.is_visible()
    assert page.get_by_text("The map needs JavaScript").is_visible()
    context.close()


def test_mean_names_are_text_also_where_a_script_writes_them(visit, plain):
    page = visit(plain)
    x, y = to_the_map(page)
    page.mouse.move(x, y)
    assert page.locator("#card").is_visible()
    page.locator("#cluster-0 button.more").click()
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("#cluster-0 .name", has_text="</script><img").count() > 0


def test_a_map_of_as_many_samples_as_can_be_asked_for_is_drawn(visit, tmp_path):
    page = visit(report(tmp_path, clustering(n=200_000, sample_names=None), "--show", 200_000))
    assert page.evaluate(PAINTED) > 0
