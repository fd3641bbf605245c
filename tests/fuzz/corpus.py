"""Small valid files of every format and kind, from which damaged ones are made."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import scipy.io
from PIL import Image
from scipy import sparse

from mccgr_cli.cli import main
from mccgr_cli.cli.checkpointing import Keeper
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.journal import Journal, checksum

N, D, K = 12, 8, 3
_rng = np.random.default_rng(0)
LABELS = np.arange(N) % K
X = np.round(_rng.random((N, D)) + 2 * (LABELS[:, None] == np.arange(D) % K), 3)
S = np.where(X > 0.6, X, 0.0)
SAMPLES = [f"s{i}" for i in range(N)]
FEATURES = [f"f{j}" for j in range(D)]

IMAGES = ("a/1.png", "a/2.jpg", "a/3.gif", "a/4.jp2", "b/1.bmp", "b/2.ppm", "b/3.tiff", "b/4.webp")
EXTRACT = ("--words", "3", "--radii", "2,3", "--step", "4", "--sample", "60", "--jobs", "0")
EXPERIMENT = (
    "--k",
    "2,3",
    "--methods",
    "l2,mccgr",
    "--strength",
    "1,9",
    "--runs",
    "2",
    "--iterations",
    "5",
    "--jobs",
    "0",
)
RANK = ("--k", "2", "--runs", "2", "--iterations", "5", "--jobs", "0")
EARLY = "2000-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Seed:
    """A valid file: what it is called, what is in it, and what it is."""

    name: str
    data: bytes
    kind: str  # what it can be given for
    options: tuple[str, ...] = ()  # that go with it where a matrix is asked for
    labels: str = ""  # what to add to its name where labels are asked for

    @property
    def format(self) -> str:
        return self.name.partition(".")[2]


def make_corpus(folder: Path) -> dict[str, Seed]:
    """All seeds by name. The same bytes every time, but for what the libraries' versions change."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        seeds = [*foreign_matrices(), *label_files(), *images(), *texts(), *made_by_commands()]
    finally:
        os.chdir(before)
    return {seed.name: seed for seed in seeds}


def run_command(*arguments: str) -> None:
    """A command that must succeed, in this process, and in the folder that it is in."""
    with (
        mock.patch.object(sys, "argv", ["mccgr", *arguments]),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
        contextlib.suppress(SystemExit),
    ):
        main(list(arguments), prog_name="mccgr")


def saved(name: str, save: Any, kind: str = "matrix", **more: Any) -> Seed:
    """What a function writes into a buffer."""
    buffer = io.BytesIO()
    save(buffer)
    data = re.sub(rb"Created on: .{24}", b"Created on: Sat Jan  1 00:00:00 2000", buffer.getvalue())  # of a .mat file
    return Seed(name, data, kind, **more)


# Matrices of other programs


def foreign_matrices() -> Iterator[Seed]:
    yield from numpy_files()
    yield from matlab_files()
    yield from text_matrices()
    yield from hdf5_files()


def numpy_files() -> Iterator[Seed]:
    yield saved("plain.npy", lambda file: np.save(file, X))
    yield saved("single.npy", lambda file: np.save(file, np.asfortranarray(X.astype("f4"))))
    yield saved("plain.npz", lambda file: np.savez(file, X=X, y=LABELS))
    names = {"sample_names": SAMPLES, "gene_names": FEATURES, "target_names": ["a", "b", "c"]}
    yield saved("named.npz", lambda file: np.savez(file, X=X, target=LABELS, **names))
    yield saved("packed.npz", lambda file: np.savez_compressed(file, X=X, labels=np.array(list("abc") * (N // K))))
    for layout in ("csr", "csc", "coo"):
        yield saved(f"{layout}.npz", partial(sparse.save_npz, matrix=sparse.coo_array(S).asformat(layout)))


def matlab_files() -> Iterator[Seed]:
    cells = np.array([f"t{label}" for label in LABELS], dtype=object)
    contents: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "plain.mat": ({"fea": X, "gnd": LABELS[:, None]}, {}),
        "packed.mat": ({"X": X, "Y": LABELS[:, None]}, {"do_compression": True}),
        "sparse.mat": ({"X": sparse.csc_array(S), "gnd": LABELS}, {}),
        "cells.mat": ({"X": X, "gnd": cells, "about": {"a": 1, "b": "text"}}, {}),
        "text.mat": ({"X": X, "labels": np.array(["one", "two", "six"] * (N // K))}, {"do_compression": True}),
        "old.mat": ({"X": X, "Y": LABELS}, {"format": "4"}),
    }
    for name, (arrays, options) in contents.items():
        yield saved(name, partial(scipy.io.savemat, mdict=arrays, **options))
    yield saved("new.mat", write_mat73)


def write_mat73(file: io.BytesIO) -> None:
    """What MATLAB's ``save -v7.3`` leaves: arrays transposed, columns, text as numbers, cells as references."""
    columns = sparse.csc_array(S)
    with h5py.File(file, "w", userblock_size=512) as new:
        put_matlab(new, "fea", X.T, "double")
        bag = new.create_group("bag")
        bag.attrs["MATLAB_sparse"] = np.uint64(N)
        bag["data"] = columns.data
        bag["ir"] = columns.indices.astype("u8")
        bag["jc"] = columns.indptr.astype("u8")
        cells = [put_matlab(new, f"#refs#/{i}", [[116], [48 + y]], "char", "u2") for i, y in enumerate(LABELS)]
        put_matlab(new, "gnd", np.array([[cell.ref for cell in cells]], h5py.ref_dtype), "cell")
        put_matlab(new, "letters", [[97 + y for y in LABELS]], "char", "u2")
    file.seek(0)
    file.write(b"MATLAB 7.3 MAT-file")


def put_matlab(file: h5py.File, name: str, value: Any, kind: str, dtype: Any = None) -> h5py.Dataset:
    dataset = file.create_dataset(name, data=value if dtype is None else np.array(value, dtype))
    dataset.attrs["MATLAB_class"] = np.bytes_(kind)
    return dataset


def text_matrices() -> Iterator[Seed]:
    for separator, suffix in ((",", "csv"), ("\t", "tsv")):
        text = table(separator).encode()
        options = ("--label-key", "kind")
        yield Seed(f"named.{suffix}", text, "matrix", options, "::kind")
        yield Seed(f"packed.{suffix}.gz", gzip.compress(text, mtime=0), "matrix", options, "::kind")
    yield Seed("bare.csv", "".join(",".join(map(str, row)) + "\n" for row in X).encode(), "matrix")
    yield saved("dense.mtx", lambda file: scipy.io.mmwrite(file, X))
    whole = saved("sparse.mtx", lambda file: scipy.io.mmwrite(file, sparse.coo_array(S), comment="made by hand"))
    yield whole
    yield Seed("packed.mtx.gz", gzip.compress(whole.data, mtime=0), "matrix")


def table(separator: str) -> str:
    lines = [["id", *FEATURES, "kind"]]
    lines += [[SAMPLES[i], *map(str, X[i]), f"c{LABELS[i]}"] for i in range(N)]
    return "".join(separator.join(line) + "\n" for line in lines)


def hdf5_files() -> Iterator[Seed]:
    yield saved("plain.h5", write_plain)
    yield saved("chunked.hdf5", write_chunked)
    for name, matrix, key in (("cells", X, "type"), ("counts", sparse.csr_array(S), "nullable")):
        write = partial(write_h5ad, matrix=matrix)
        yield saved(f"{name}.h5ad", write, options=("--label-key", key), labels=f"::obs/{key}")


def write_plain(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as new:
        new["X"], new["Y"], new["deep/M"] = X, LABELS, X.astype(">f4")


def write_chunked(file: io.BytesIO) -> None:
    with h5py.File(file, "w") as new:
        new.create_dataset("fea", data=X, chunks=(5, 4), compression="gzip", shuffle=True, fletcher32=True)
        new.create_dataset("gnd", data=LABELS[:, None], chunks=(4, 1), maxshape=(None, 1), scaleoffset=0)


def write_h5ad(file: io.BytesIO, matrix: Any) -> None:
    with h5py.File(file, "w") as new:
        new.attrs["encoding-type"] = "anndata"
        if sparse.issparse(matrix):
            group = new.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(matrix, part)
        else:
            new["X"] = matrix
        new["layers/counts"] = X.astype("f4") * 2
        for frame, names in (("obs", SAMPLES), ("var", FEATURES)):
            new[f"{frame}/key"] = names
            new[frame].attrs["_index"] = "key"
        new["obs/number"] = LABELS
        new["obs/type/codes"] = LABELS.astype("i1")
        new["obs/type/categories"] = ["a", "b", "c"]
        new["obs/nullable/values"], new["obs/nullable/mask"] = LABELS, np.zeros(N, bool)


# Labels and images


def label_files() -> Iterator[Seed]:
    lines = "".join(f"c{label}\n" for label in LABELS).encode()
    yield Seed("classes.txt", lines, "labels")
    yield Seed("classes.csv", b"class\n" + lines.replace(b"c", b""), "labels")
    yield saved("classes.npy", lambda file: np.save(file, LABELS), "labels")
    yield saved("classes.mat", lambda file: scipy.io.savemat(file, {"gnd": LABELS}), "labels")


def images() -> Iterator[Seed]:
    rng = np.random.default_rng(1)
    for name in (f"images/{image}" for image in IMAGES):
        values = np.kron(rng.integers(0, 256, (6, 6, 3)), np.ones((4, 4, 1))).astype("u1")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values if name.endswith(("png", "jpg", "ppm", "webp")) else values[..., 0]).save(name)
        yield Seed(name, Path(name).read_bytes(), "image")


TOPICS = ("dough loaf oven crust", "wheel brake tyre pump")


def texts() -> Iterator[Seed]:
    """A folder of texts in several encodings, and files of texts."""
    content = {f"texts/{i % 2}/{i}.txt": f"The {TOPICS[i % 2]} of caf\xe9 {i % 3}0." for i in range(6)}
    for (name, text), encoding in zip(content.items(), ("utf-8", "utf-16", "cp1252") * 2, strict=True):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(text.encode(encoding))
        yield Seed(name, text.encode(encoding), "texts")
    records = [{"id": name, "text": text, "label": name[6]} for name, text in content.items()]
    yield Seed("texts.jsonl", "".join(json.dumps(record) + "\n" for record in records).encode(), "texts")
    lines = ["id;text;label", *(";".join(f'"{field}"' for field in record.values()) for record in records)]
    yield Seed("texts.csv", "\n".join(lines).encode("utf-16"), "texts", ("--text-field", "text"))


# Files of our own


def made_by_commands() -> Iterator[Seed]:
    """What every command writes, of whatever kind it is; the last is what a killed experiment leaves."""
    names: dict[str, Any] = {"labels": LABELS, "label_names": ["a", "b", "c"]}
    names.update(sample_names=SAMPLES, feature_names=FEATURES)
    Path("matrix.h5").write_bytes(encode(Contents("matrix", {"X": X, **names})))
    Path("csr.h5").write_bytes(encode(Contents("matrix", {"X": sparse.csr_array(S), "labels": LABELS})))
    for folder in ("a", "b"):
        Path("images", folder, "broken.png").write_bytes(b"")
    factorize = ("factorize", "matrix.h5", "--k", str(K), "--iterations", "5")
    commands: dict[str, tuple[str, ...]] = {
        "graph.h5": ("graph", "matrix.h5", "--neighbors", "2"),
        "factors.h5": (*factorize, "--graph", "graph.h5"),
        "single.h5": (*factorize, "--method", "kl", "--dtype", "float32"),
        "coefficients.h5": ("transform", "factors.h5", "csr.h5"),
        "clusters.h5": ("cluster", "factors.h5", "--restarts", "1"),
        "baseline.h5": ("cluster", "matrix.h5", "--k", str(K), "--restarts", "1"),
        "codebook.h5": ("extract", "images", *EXTRACT),
        "words.h5": ("extract", "texts"),
        "weights.h5": ("factorize", "words.h5", "--k", "2", "--iterations", "5"),
        "topics.h5": ("cluster", "weights.h5"),
        "ranks.h5": ("rank", "matrix.h5", *RANK),
        "results.h5": ("experiment", "matrix.h5", *EXPERIMENT),
    }
    for name, command in commands.items():
        with mock.patch.object(Journal, "remove", Journal.close):
            run_command(*command, "-q", "-o", name)
        forget_times(Path(name))
    checkpoints = {"kept.h5": ("--restarts", "2", "--init", "random"), "begun.h5": ("--solver", "coordinate")}
    for name, options in checkpoints.items():
        with mock.patch.object(Keeper, "delete"):
            always = ("--checkpoint", name, "--checkpoint-every", "0")
            run_command(*factorize, *options, *always, "-q", "-o", "ended.h5", "--overwrite")
        forget_times(Path(name))
    for name in ("matrix.h5", "csr.h5", *commands, *checkpoints):
        data = Path(name).read_bytes()
        yield Seed(name, data, {"codebook.h5": "codebook", "words.h5": "words"}.get(name) or kind_of(data))
    for name, whole, kind in (("trials.h5", "results.h5", "journal"), ("k.h5", "ranks.h5", "rank journal")):
        yield Seed(f"{name}.part", killed_journal(Path(f"{whole}.part").read_bytes()), kind)
    import_the_rest()


def kind_of(data: bytes) -> str:
    with h5py.File(io.BytesIO(data), "r") as file:
        return str(file.attrs["kind"])


def forget_times(path: Path) -> None:
    """Replace the time when a file was made, and that which it took."""
    with h5py.File(path, "r+") as file:
        for name in ("seconds", "history/seconds"):
            if name in file:
                file[name][...] = 0.5
    path.write_bytes(re.sub(rb'"time": "[^"]{25}"', f'"time": "{EARLY}"'.encode(), path.read_bytes()))


def killed_journal(whole: bytes) -> bytes:
    """One entry of two, and a part of the other."""
    first, second, third, *_ = whole.splitlines(keepends=True)
    entry = json.loads(second)
    for row in entry["result"] if isinstance(entry["result"], list) else ():
        row["seconds"] = 0.5
    entry["sum"] = checksum(entry["name"], entry["result"])
    return first + json.dumps(entry).encode() + b"\n" + third[:40]


def import_the_rest() -> None:
    """Run what writes no seed, so that all it imports is there for every case."""
    run_command("plot", "factors.h5", "-q")
    run_command("plot", "results.h5", "-q", "-o", "results.png")
    run_command("evaluate", "clusters.h5")
    run_command("table", "results.h5")
    run_command("info", "matrix.h5")
