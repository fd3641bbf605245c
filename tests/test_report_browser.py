"""The page of mccgr report in a real browser: it needs nothing else, answers mouse and keyboard, and fits."""

from __future__ import annotations

import re

import pytest
from browsing import FAINT, PAINTED, data_of, focused, report, to_the_map
from reports import clustering, images_of


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
