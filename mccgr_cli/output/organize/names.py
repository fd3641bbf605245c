"""Names of folders and files in the organized folder. What they are made from is not trusted."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from unicodedata import category, normalize

import numpy as np

from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers.assignments import Assignments
from mccgr_cli.output.cluster_names import named_clusters
from mccgr_cli.output.text import JOINERS

FOLDER = "cluster-"  # the names of all folders begin with this
LONGEST_TITLE, LONGEST_NAME = 100, 255  # bytes
LONGEST_SUFFIX = 20
REPLACED = '/\\<>:"|?*'  # some file systems do not allow these in a name
DIGITS = (8, 64)  # of a checksum in a name: few, or all if these are not enough


def titles_of(given: Assignments) -> dict[int, str]:
    """What the clusters are called: by a person, by the classes of old samples, or by the classes of these samples."""
    classes = given.classes
    if given.labels and not classes:
        clusters = np.array(given.clusters)
        named = named_clusters(clusters, evaluate(given.labels, clusters))
        classes = {cluster.number: cluster.name for cluster in named if cluster.name is not None}
    return {cluster: safe_title(title) for cluster, title in {**classes, **given.names}.items()}


def safe_title(title: str) -> str:
    """A title that may be part of the name of a folder; empty if nothing of it can be used.

    >>> safe_title("../etc"), safe_title("a/b"), safe_title("x\\ny"), safe_title("../.."), safe_title("né 猫")
    ('_etc', 'a_b', 'x_y', '', 'né 猫')
    """
    kept = (char in JOINERS or category(char) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") for char in title)
    text = "".join(char if keep and char not in REPLACED else "_" for char, keep in zip(title, kept, strict=True))
    short = normalize("NFC", text).strip(" .").encode()[:LONGEST_TITLE].decode(errors="ignore")
    return short.strip(" .") if set(short) - set("_. ") else ""


def folder_name(cluster: int, digits: int, title: str) -> str:
    """
    >>> folder_name(3, 2, "airplanes"), folder_name(3, 3, "")
    ('cluster-03-airplanes', 'cluster-003')
    """
    return f"{FOLDER}{cluster:0{digits}}" + (f"-{title}" if title else "")


def digits_for(clusters: Iterable[int]) -> int:
    """How many digits the numbers of folders have, so that folders sort by number."""
    return max(2, *(len(str(abs(cluster))) for cluster in clusters))


def distinct_names(paths: Collection[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Names for files in one folder, by their paths: the same whatever the order of the paths.

    A file keeps its name. Where names are equal, those of the folders come before them. If this is not enough, or too
    long, a checksum of the path goes into the name. Names that differ only in case count as equal, as on macOS.

    >>> distinct_names(["/x/a/1.jpg", "/x/b/1.jpg", "/x/b/2.jpg"])
    {'/x/a/1.jpg': 'a_1.jpg', '/x/b/1.jpg': 'b_1.jpg', '/x/b/2.jpg': '2.jpg'}
    """
    used = {folded(name) for name in taken}
    groups: dict[str, list[str]] = {}
    for path in sorted(paths):
        groups.setdefault(folded(os.path.basename(path)), []).append(path)  # any bytes
    names = {path: name for group in groups.values() for path, name in with_folders(group, used).items()}
    for digits in DIGITS:
        spelled: set[str] = set()
        while clashing := clashes(names, used) - spelled:  # a name with a checksum may be that of another file
            names |= {path: with_checksum(path, digits) for path in clashing}
            spelled |= clashing
    return names


def with_folders(group: list[str], used: Collection[str]) -> dict[str, str]:
    """Names with as many folders as make them different."""
    parts = {path: path.strip("/").split("/") for path in group}
    for depth in range(1, max(map(len, parts.values())) + 1):
        names = {path: "_".join(some[-depth:]) for path, some in parts.items()}
        if len({folded(name) for name in names.values()} - set(used)) == len(group):
            break
    return names


def clashes(names: Mapping[str, str], used: Collection[str]) -> set[str]:
    """Paths whose names cannot stay."""
    counts = Counter(folded(name) for name in names.values())

    def clashing(name: str) -> bool:
        return counts[folded(name)] > 1 or folded(name) in used or len(os.fsencode(name)) > LONGEST_NAME

    return {path for path, name in names.items() if clashing(name)}


def with_checksum(path: str, digits: int) -> str:
    stem, suffix = os.path.splitext(os.path.basename(path))
    if len(os.fsencode(suffix)) > LONGEST_SUFFIX:
        suffix = ""
    ending = f"~{hashlib.sha256(os.fsencode(path)).hexdigest()[:digits]}{suffix}"
    while len(os.fsencode(stem + ending)) > LONGEST_NAME:
        stem = stem[:-1]
    return stem + ending


def folded(name: str) -> str:
    return normalize("NFC", normalize("NFC", name).casefold())
