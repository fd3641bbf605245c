"""Clusterings to report on, and what the tests ask of a page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import Loaded
from mccgr_cli.images.thumbnails import make_thumbnail
from mccgr_cli.output.report import DuplicateGroup, find, render

VOID = {"img", "input", "link", "meta"}
CLASSES = ["ant", "bee", "cat"]
STEP = {
    "command": "cluster",
    "command_line": "mccgr cluster X.factors.h5",
    "parameters": {"k": 3},
    "versions": {"mccgr": "0.1.0"},
    "time": "2026-01-31T12:00:00+00:00",
    "inputs": [{"name": "data/insects", "sha256": "ab" * 32, "provenance": {}}],
}


def clustering(n: int = 90, k: int = 3, d: int = 12, **more: Any) -> Contents:
    """k groups of samples as factors would have them, all but two in the right cluster; None leaves a dataset out."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % k
    objective = 100 * np.exp(-np.arange(30.0)) + 1
    datasets: dict[str, Any] = {
        "W": rng.gamma(9, np.eye(k)[labels] + 0.1),
        "H": rng.random((k, d)),
        "rho": np.linspace(0, 1, d),
        "history/objective": objective,
        "history/data": 0.9 * objective,
        "history/graph": 0.1 * objective,
        "history/sigma": objective,
        "history/seconds": np.arange(30.0),
        "assignments": np.where(np.arange(n) < 2, (labels + 1) % k, labels),
        "labels": labels,
        "label_names": [CLASSES[i] if i < 3 else f"class {i}" for i in range(k)],
        "sample_names": [f"{CLASSES[i % k % 3]}/{i}.png" for i in range(n)],
        "feature_names": [f"feature {j}" for j in range(d)],
        **more,
    }
    attributes = {"method": "mccgr", "cluster_assign": "kmeans", "converged": True}
    attributes |= {"graph_edges": 4 * n, "graph_isolated": 1, "graph_components": 2}
    there = {name: value for name, value in datasets.items() if value is not None}
    return Contents("clusters", there, attributes, STEP)


FACTORS = ("W", "H", "rho", *(f"history/{name}" for name in ("objective", "data", "graph", "sigma", "seconds")))
WITHOUT_FACTORS = dict.fromkeys(FACTORS)


def save(path: Path, contents: Contents) -> Path:
    write_files({path: encode(contents)}, overwrite=True)
    return path


def images_of(folder: Path, contents: Contents) -> Path:
    """Images with the names of the samples, each of one colour."""
    colours = {"ant": (200, 40, 40), "bee": (220, 190, 30), "cat": (60, 80, 200)}
    for i, name in enumerate(contents["sample_names"]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shade = tuple(min(255, part + i % 40) for part in colours[path.parent.name])
        Image.new("RGB", (60, 40), shade).save(path)
    return folder


def full_page(folder: Path, contents: Contents, images: Path) -> Path:
    """A page with images and two groups of duplicates: samples 0 and 1 in two clusters, 5 and 8 in one."""
    found = find(Loaded(contents, "C.h5", "0" * 64), contents.labels_as_text(), 10_000)
    paths = {i: str(images / contents["sample_names"][i]) for i in found.order.tolist()}
    thumbnails = {i: make_thumbnail(path, 128, 10**6) for i, path in paths.items()}
    groups = [DuplicateGroup((0, 1), 1.0, exact=True), DuplicateGroup((5, 8), 0.975, exact=False)]
    path = folder / "page.html"
    path.write_bytes(render(found, thumbnails, "Everything", groups))
    return path


class Element:
    def __init__(self, tag: str, attributes: dict[str, str | None], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element | str] = []

    def all(self, tag: str | None = None, **attributes: str) -> list[Element]:
        """Elements within, by tag and attributes; class_ means that it is one of the classes."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if (tag in (None, child.tag)) and all(child.has(key, value) for key, value in attributes.items()):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def has(self, key: str, value: str) -> bool:
        own = self.attributes.get(key.rstrip("_").replace("_", "-"))
        return value in (own or "").split() if key == "class_" else own == value

    def one(self, tag: str | None = None, **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Page(HTMLParser):
    """The elements of a page; that each is closed in its turn is checked on the way."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = self.at = Element("", {}, None)
        self.feed(text)
        self.close()
        assert self.at is self.root, f"<{self.at.tag}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({key for key, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.at.tag, f"</{tag}> ends <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def read(path: Path) -> Element:
    return Page(path.read_bytes().decode()).root
