"""The page of mccgr report as a tool, in a real browser: search, zoom, selection, changes of clusters, and the CSV."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from browsing import A_MARK, FAINT, PAINTED, data_of, focused, report, to_the_map
from reports import WITHOUT_FACTORS, clustering, full_page, images_of

MEAN = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """With images, outliers and duplicates: 120 samples in three clusters."""
    folder = tmp_path_factory.mktemp("full")
    contents = clustering(n=120, outlier=np.linspace(0.5, 3, 120))
    return full_page(folder, contents, images_of(folder / "insects", contents))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Without images and without coefficients: 90 samples with names that a table must quote."""
    names = [('a,"b"', "two\nlines", "=1+1", "\U0001f431cat", "")[i % 5] + f" {i}" for i in range(90)]
    contents = clustering(sample_names=names, **WITHOUT_FACTORS)
    return report(tmp_path_factory.mktemp("plain"), contents)


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """900 samples, of which some 300 are on the page."""
    names = [f"\U0001f431/{'ant' if i % 2 else 'bee'}/{i},{i}" for i in range(900)]
    return report(tmp_path_factory.mktemp("partly"), clustering(n=900, sample_names=names), "--show", 300)


def rows_of(page, button):
    """The rows of the CSV that a button downloads."""
    with page.expect_download() as waiting:
        page.locator(button).click()
    return list(csv.reader(io.StringIO(waiting.value.path().read_text("utf-8"), newline="")))


def names_on_map(page):
    return page.evaluate("JSON.parse(document.getElementById('names').dataset.shown)")


def rename(page, cluster, name):
    page.locator(f"#cluster-{cluster} .edit button", has_text="Rename").click()
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def merge(page, cluster, into):
    page.locator(f"#cluster-{cluster} .edit button", has_text="Merge").click()
    page.locator(f"#cluster-{cluster} .edit select").select_option(str(into))
    page.locator(f"#cluster-{cluster} .edit button", has_text="Merge").click()


def lasso(page, start=(0.01, 0.01), end=(0.99, 0.99)):
    """Draw a lasso around a rectangle, given in parts of the map."""
    box = page.locator("#canvas").bounding_box()
    (left, top), (right, bottom) = start, end
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def drawn(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


# Search


def test_a_search_lists_counts_and_highlights_what_it_finds(visit, full):
    page = visit(full)
    to_the_map(page)
    whole = page.evaluate(PAINTED)
    page.keyboard.press("/")
    assert focused(page, "id") == "search"
    page.keyboard.type("cat/1")
    wanted = [name for name in data_of(page)["names"] if "cat/1" in name]
    assert page.locator("#found img").evaluate_all("all => all.map((one) => one.alt)") == wanted
    assert page.locator("#found-count").text_content() == f"{len(wanted)} images found."
    assert page.locator("#announcer").text_content() == f"{len(wanted)} images found."
    drawn(page)
    assert 0 < page.evaluate(PAINTED) < whole
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    assert not page.locator("#found").is_visible()
    drawn(page)
    assert page.evaluate(PAINTED) == whole
    page.keyboard.type("nobody")
    assert page.locator("#found-count").text_content() == "Nothing is called “nobody”."


def test_a_result_is_opened_by_keyboard_and_arrows_go_through_the_results(visit, full):
    page = visit(full)
    page.keyboard.press("/")
    page.keyboard.type("BEE/4")  # letters may be large
    names = page.locator("#found img").evaluate_all("all => all.map((one) => one.alt)")
    page.locator("#found .tile").first.focus()
    page.keyboard.press("Enter")
    title = page.locator("#viewer-title")
    assert title.text_content() == names[0]
    page.keyboard.press("ArrowRight")
    assert title.text_content() == names[1]
    page.locator("#view-cluster").click()
    assert page.locator(".tile.chosen img").get_attribute("alt") == names[1]
    assert page.locator(".tile.chosen").evaluate("tile => tile === document.activeElement")
    page.locator("#search").fill("a")
    many = sum("a" in name for name in data_of(page)["names"])
    assert page.locator("#found .tile").count() == 24 < many
    page.locator("#found .tile").first.click()
    assert page.locator("#viewer-facts div").last.text_content() == f"In this list1 of {many}"  # also those to come


def test_a_search_finds_classes_and_clusters_by_the_names_they_have_now(visit, full):
    page = visit(full)
    rename(page, 1, "Humming things")
    page.locator("#search").fill("humming")
    size = np.bincount(clustering(n=120)["assignments"])[1]
    assert page.locator("#found-clusters a").all_text_contents() == [f"Humming things (cluster 1), bee{size}"]
    assert page.locator("#found-count").text_content() == f"{size} images, 1 cluster found."
    page.locator("#search").fill("ant 7")  # words may be in different names
    found = page.locator("#found img").evaluate_all("all => all.map((one) => one.alt)")
    assert found
    assert all("7" in name and "ant" in name for name in found)


def test_without_images_results_lead_to_their_rows(visit, plain):
    page = visit(plain)
    page.locator("#search").fill("cat 88")
    assert page.locator("#found-count").text_content() == "1 sample found."
    page.locator("#found .list a").click()
    assert not page.locator("#found").is_visible()
    assert "cat 88" in page.locator("li.chosen .name").text_content()
    assert page.locator("li.chosen").evaluate("row => row === document.activeElement")


# The map


def test_the_map_names_its_clusters_and_leaves_out_names_without_room(visit, full, tmp_path):
    page = visit(full)
    assert sorted(names_on_map(page)) == ["ant", "bee", "cat"]
    rename(page, 2, "Whiskers")
    assert sorted(names_on_map(page)) == ["Whiskers", "ant", "bee"]
    page.locator("#with-names").click()
    assert page.locator("#with-names").get_attribute("aria-pressed") == "false"
    many = visit(report(tmp_path, clustering(n=200, k=100)))
    assert 5 < len(names_on_map(many)) < 100


def test_the_map_zooms_by_keys_buttons_wheel_and_fingers_and_moves(visit, full):
    page = visit(full, has_touch=True)
    to_the_map(page)
    reset, whole = page.locator("#zoom-reset"), page.evaluate(PAINTED)
    assert reset.is_disabled()
    page.focus("#canvas")
    for key in ("ArrowRight", *"+++"):  # around the mark that is shown
        page.keyboard.press(key)
    drawn(page)
    assert page.evaluate(PAINTED) != whole
    assert len(names_on_map(page)) < 3  # others are out of view
    before = page.evaluate(A_MARK)
    page.keyboard.press("Shift+ArrowRight")
    drawn(page)
    assert page.evaluate(A_MARK) != before
    page.keyboard.press("0")
    assert reset.is_disabled()
    box = page.locator("#canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    page.wait_for_function("() => !document.getElementById('zoom-reset').disabled")
    reset.click()
    touch = page.context.new_cdp_session(page)
    for kind, gap in (("touchStart", 20), ("touchMove", 60), ("touchMove", 120), ("touchEnd", None)):
        points = [] if gap is None else [{"x": x - gap, "y": y, "id": 0}, {"x": x + gap, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function("() => !document.getElementById('zoom-reset').disabled")
    assert page.evaluate("scrollX") == 0


def test_the_wheel_alone_scrolls_the_page(visit, full):
    page = visit(full)
    x, y = to_the_map(page)
    page.mouse.move(x, y)
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, -300)
    page.wait_for_function("before => scrollY < before", arg=before)
    assert page.locator("#zoom-reset").is_disabled()


def test_a_drag_moves_the_map_and_opens_nothing(visit, full):
    page = visit(full)
    to_the_map(page)
    page.locator("#zoom-in").click()
    drawn(page)
    x, y = before = page.evaluate(A_MARK)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 100, steps=4)  # the mark stays under the mouse
    page.mouse.up()
    drawn(page)
    assert page.evaluate(A_MARK) != before
    assert page.locator(".chosen").count() == 0


# Selection


def test_a_lasso_selects_what_is_within(visit, full):
    page = visit(full)
    to_the_map(page)
    page.locator("#lasso").click()
    lasso(page)
    assert page.locator("#selected-count").text_content() == "120 images selected"
    assert page.locator("#announcer").text_content() == "120 images selected."
    lasso(page, end=(0.5, 0.99))
    some = int(page.locator("#selected-count").text_content().split()[0])
    assert 0 < some < 120
    rows = rows_of(page, "#selected-csv")
    assert rows[0] == ["sample", "cluster", "name"]
    assert len(rows) == some + 1
    page.locator("#selected-clear").click()
    assert not page.locator("#selection").is_visible()


def test_the_keyboard_selects_marks_one_by_one_and_all_in_view(visit, full):
    page = visit(full)
    page.focus("#canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator("#selected-count").text_content() == "1 image selected"
    assert "selected" in page.locator("#reading").text_content()
    page.keyboard.press("Space")
    assert not page.locator("#selection").is_visible()
    page.keyboard.press("a")
    assert page.locator("#selected-count").text_content() == "120 images selected"
    page.locator("#selected-clear").focus()
    page.keyboard.press("Enter")
    assert not page.locator("#selection").is_visible()
    assert focused(page, "id") == "canvas"


def test_selected_images_move_to_a_new_cluster_and_on(visit, full):
    page = visit(full)
    page.locator("#search").fill("cat/1")
    many = page.locator("#found .tile").count()
    page.locator("#found-select").click()
    page.locator("#move-name").fill(MEAN)
    page.locator("#move").click()
    assert not page.locator("#found").is_visible()  # the search goes on, but its list does not cover the page again
    part = page.locator("#cluster-3")
    assert MEAN in part.locator("h3").text_content()
    assert part.locator(".tile").count() == many
    assert page.locator("#cluster-2 .moved").count() > 0
    assert MEAN in page.locator("#legend .name").all_text_contents()
    assert any(name.startswith("<img src=x") for name in names_on_map(page))
    assert page.locator("img[src=x]").count() == 0
    rows = rows_of(page, "#changes-download")
    assert [row for row in rows if "cat/1" in row[0]] == [[row[0], "3", MEAN] for row in rows if "cat/1" in row[0]]
    part.locator(".tile").first.click()
    page.locator("#view-select").click()
    page.locator("#close").click()
    page.locator("#move-target").select_option("0")
    page.locator("#move").click()
    assert part.locator(".tile").count() == many - 1
    assert page.locator("#cluster-0 .added .tile").count() == 1
    for _ in range(2):
        page.locator("#changes-undo").click()
    assert part.count() == 0
    assert page.locator(".moved").count() == 0
    page.locator("#changes-redo").click()
    assert part.locator(".tile").count() == many


# Changes of clusters


def test_a_cluster_is_renamed_everywhere_by_enter_and_not_by_escape(visit, full):
    page = visit(full)
    page.locator("#cluster-0 .edit button", has_text="Rename").focus()
    page.keyboard.press("Enter")
    assert focused(page, "value") == "ant"
    page.keyboard.type("Six legs")
    page.keyboard.press("Escape")
    assert not page.locator("#changes").is_visible()
    assert focused(page, "textContent") == "Rename"
    rename(page, 0, "Six legs")
    assert focused(page, "ariaLabel") == "Rename Six legs (cluster 0)"
    assert page.locator("#cluster-0 h3 .name").text_content() == "Six legs"
    assert page.locator("#cluster-0 .matched-class").text_content() == "cluster 0, ant"
    assert page.locator("#legend .name").first.text_content() == "Six legs"
    assert page.locator("#cluster-chips .name").first.text_content() == "Six legs"
    assert page.locator(".dots [data-name-of]").all_text_contents() == ["Six legs", "1", "2"]
    assert "Six legs" in names_on_map(page)
    links = "all => all.filter((one) => one.textContent === 'Six legs (cluster 0)').length"
    assert page.locator("#outliers [data-cluster-of]").evaluate_all(links) > 0
    assert page.locator("#changes-count").text_content() == "1 change"
    page.keyboard.press("Control+z")
    assert page.locator("#cluster-0 h3").text_content() == "Cluster 0ant"
    assert page.locator(".dots [data-name-of]").first.text_content() == "0"


def test_clusters_are_merged_and_taken_apart_again(visit, full):
    page = visit(full)
    rename(page, 0, "Bugs")
    merge(page, 1, 0)
    assert page.locator("#cluster-1 h3").text_content() == "Cluster 1is merged into Bugs (cluster 0)"
    assert not page.locator("#cluster-1 .tile").first.is_visible()
    sizes = np.bincount(clustering(n=120)["assignments"])
    after = page.locator("#cluster-0 .about .after").text_content()
    assert after == f"{sizes[:2].sum()} images after your changes; in the file:"
    assert page.locator("#cluster-0 .added .tile").count() == sizes[1]
    assert page.locator("#legend button").count() == 2
    assert page.locator("#cluster-chips li:visible").count() == 2
    merge(page, 0, 2)
    rows = rows_of(page, "#changes-download")
    assert {(cluster, name) for _, cluster, name in rows[1:]} == {("2", "cat")}
    page.locator("#changes-reset").click()
    assert page.locator("#changes-count").text_content() == "No changes"
    assert page.locator("#cluster-1 h3").text_content() == "Cluster 1bee"
    assert page.locator("#cluster-1 .tile").first.is_visible()
    assert page.locator("#legend button").count() == 3


def test_the_csv_holds_all_names_as_they_are_in_the_order_of_the_file(visit, plain):
    page = visit(plain)
    merge(page, 1, 0)
    rows = rows_of(page, "#changes-download")
    contents = clustering()
    names = [('a,"b"', "two\nlines", "=1+1", "\U0001f431cat", "")[i % 5] + f" {i}" for i in range(90)]
    assert rows[0] == ["sample", "cluster", "name"]
    assert [row[0] for row in rows[1:]] == names
    numbers = np.where(contents["assignments"] == 1, 0, contents["assignments"])
    assert [int(row[1]) for row in rows[1:]] == numbers.tolist()
    assert {(row[1], row[2]) for row in rows[1:]} == {("0", "ant"), ("2", "cat")}
    assert "18 names begin with = + - or @" in page.locator("#changes-note").text_content()


def test_the_csv_holds_samples_that_the_page_does_not_show(visit, partly):
    page = visit(partly)
    merge(page, 2, 1)
    assert "all 900 samples" in page.locator("#changes-note").text_content()
    contents = clustering(n=900)
    assert (
        f"{np.isin(contents['assignments'], (1, 2)).sum()} samples after" in page.locator("#cluster-1").text_content()
    )
    rows = rows_of(page, "#changes-download")
    assert [row[0] for row in rows[1:]] == [f"\U0001f431/{'ant' if i % 2 else 'bee'}/{i},{i}" for i in range(900)]
    numbers = np.where(contents["assignments"] == 2, 1, contents["assignments"])
    assert [int(row[1]) for row in rows[1:]] == numbers.tolist()


def test_samples_without_names_are_numbers_in_the_csv(visit, tmp_path):
    page = visit(report(tmp_path, clustering(n=9, sample_names=None, labels=None, label_names=None)))
    rename(page, 0, "x")
    rows = rows_of(page, "#changes-download")
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(9)]
    assert {row[2] for row in rows[1:]} == {"x", ""}


def test_a_page_with_changes_asks_before_it_is_left(visit, full):
    page = visit(full)
    asked = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert asked == []
    rename(page, 0, "x")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert asked == ["beforeunload"]
    rename(page, 0, "x")
    rows_of(page, "#changes-download")
    page.reload()
    assert asked == ["beforeunload"]


# Outliers and duplicates


def test_outliers_and_duplicates_show_images_that_are_elsewhere_in_the_page(visit, full):
    page = visit(full)
    for section in ("outliers", "duplicates"):
        page.locator(f"#{section}").evaluate("element => element.scrollIntoView({behavior: 'instant'})")
        page.wait_for_function(f"() => document.querySelector('#{section} .tile img')?.naturalWidth === 60")
    first = page.locator("#outliers .tile").first
    first.click()
    facts = page.locator("#viewer-facts div").all_text_contents()
    assert "Outlier score3.00" in facts
    assert any(fact.startswith("Certainty") for fact in facts)
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement === document.querySelector('#outliers .tile')")


def test_all_groups_of_duplicates_are_in_the_csv_and_follow_changes(visit, full):
    page = visit(full)
    rows = rows_of(page, "#duplicates-csv")
    assert rows[0] == ["group", "sample", "keep", "similarity", "exact"]
    assert rows[1:4] == [
        ["0", "ant/0.png", "yes", "1", "yes"],
        ["0", "bee/1.png", "no", "1", "yes"],
        ["1", "cat/5.png", "yes", "0.975", "no"],
    ]
    assert page.locator("#duplicates .spread").all_text_contents() == ["in 2 clusters", "in one cluster"]
    merge(page, 1, 2)
    assert page.locator("#duplicates .spread").all_text_contents() == ["in one cluster", "in one cluster"]


# For everyone


def in_use(page):
    """The page with everything open that can be opened."""
    rename(page, 0, MEAN + "x" * 150)
    page.locator("#cluster-1 .edit button", has_text="Rename").click()
    page.locator("#cluster-2 .edit button", has_text="Merge").click()
    page.locator("#search").fill("a")
    page.locator("#found-select").click()
    page.locator("#search").focus()


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1280)])
def test_a_page_in_use_stands_out_fits_and_has_names_for_all_controls(visit, full, plain, scheme, width):
    for path in (full, plain):
        page = visit(path, width=width, color_scheme=scheme)
        in_use(page)
        assert page.locator("#found").is_visible()
        assert page.locator("#selection").is_visible()
        assert page.evaluate(FAINT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        controls = {"button", "link", "searchbox", "textbox", "combobox", "region", "image"}
        nameless = [
            node["role"]["value"]
            for node in tree
            if not node.get("ignored")
            and node.get("role", {}).get("value") in controls
            and not (node.get("name") or {}).get("value", "").strip()
        ]
        assert nameless == []
        assert page.locator("img[src=x]").count() == 0


def test_focus_is_visible_and_goes_through_results_controls_and_bar(visit, full):
    page = visit(full)
    rename(page, 0, "x")
    page.keyboard.press("/")
    page.keyboard.type("cat/11")
    stops = []
    for _ in range(9):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", focused(page, "outerHTML")
        stops.append(focused(page, "id") or focused(page, "className") or focused(page, "tagName"))
    assert stops[:4] == ["found-select", "found-map", "found-clear", "tile"]
    assert "theme" in stops
    page.locator("#provenance summary").last.focus()
    for _ in range(3):
        page.keyboard.press("Tab")
        stops.append(focused(page, "id"))
    assert stops[-3:] == ["changes-download", "changes-undo", "changes-reset"]


@pytest.mark.parametrize(
    "fragment", ["#cluster-<b>", "#%22%3E%3Cimg src=x onerror=alert(1)%3E", "#cluster-0%00", "#__proto__"]
)
def test_an_address_can_name_a_cluster_and_nothing_else(visit, full, fragment):
    page = visit(full, fragment=fragment)
    assert page.locator("img[src=x]").count() == 0
    assert page.locator(".cluster.chosen").count() == 0
