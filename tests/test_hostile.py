"""Files made to do harm: each is refused in one line, within seconds and without memory; no other file is opened."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import io as scipy_io
from scipy import sparse

import mccgr_cli.cli.job  # noqa: F401 (it must not be imported first while a test replaces available_memory)
from mccgr_cli.files import readers
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import load
from mccgr_cli.files.readers.hdf5 import ENTRY, HEAP
from mccgr_cli.files.readers.text import Bounded
from mccgr_cli.system import memory

HUGE = 10**15
READERS = (("factorize", "--k", 2), ("graph",), ("cluster", "--k", 2), ("info",))


@pytest.fixture
def refused_by_all(refused, tmp_path):
    """Every command that reads a matrix says the same of a file."""

    def run(path, words):
        for command, *options in READERS:
            output = () if command == "info" else ("-o", tmp_path / "out.h5")
            message = refused(command, path, *options, *output)
            assert words in message, message
        assert not (tmp_path / "out.h5").exists()

    return run


def hdf5(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file[name.replace("__", "/")] = value
    return path


# Other files


@pytest.fixture
def secret(tmp_path):
    return hdf5(tmp_path / "secret.h5", X=np.full((6, 4), 4711.0))


def test_external_links(refused_by_all, secret, tmp_path):
    refused_by_all(hdf5(tmp_path / "X.h5", X=h5py.ExternalLink(str(secret), "/X")), "link to another file")


def test_external_links_to_the_parts_of_a_sparse_matrix(refused_by_all, secret, tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_group("X").attrs["shape"] = (6, 4)
        file["X/data"] = h5py.ExternalLink(str(secret), "/X")
        file["X/indices"], file["X/indptr"] = np.zeros(3, int), np.array([0, 1, 2, 3, 3, 3, 3])
    refused_by_all(tmp_path / "X.h5", "link to another file")


def test_soft_links_through_external_ones(refused_by_all, secret, tmp_path):
    out = h5py.ExternalLink(str(secret), "/")
    refused_by_all(hdf5(tmp_path / "X.h5", X=h5py.SoftLink("/out/X"), out=out), "link to another file")


def test_virtual_datasets(refused_by_all, secret, tmp_path):
    layout = h5py.VirtualLayout((6, 4), dtype="f8")
    layout[:] = h5py.VirtualSource(str(secret), "X", (6, 4))
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    refused_by_all(tmp_path / "X.h5", "in another file")


def test_external_storage(refused_by_all, tmp_path):
    (tmp_path / "raw").write_bytes(np.full(24, 4711.0).tobytes())
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", (6, 4), "f8", external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
    refused_by_all(tmp_path / "X.h5", "in another file")


@pytest.mark.parametrize("target", ["/X", "/Y", "X", "../X"])
def test_soft_links_that_lead_nowhere(refused, tmp_path, target):
    path = hdf5(tmp_path / "X.h5", X=h5py.SoftLink(target), Y=h5py.SoftLink("/X"))
    assert refused("factorize", path, "--k", 2)


def test_groups_that_hold_themselves(refused, tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = file["/"]
    assert "not a sparse matrix" in refused("factorize", tmp_path / "X.h5", "--k", 2)


# Sizes


def test_a_declared_shape_beyond_all_memory(refused, tmp_path):
    for shape in ((HUGE, 4), (4, HUGE), (HUGE, HUGE)):
        with h5py.File(tmp_path / "X.h5", "w") as file:
            file.create_dataset("X", shape, "f8", chunks=(1, 1))
        for command, *options in READERS:
            message = refused(command, tmp_path / "X.h5", *options, *(() if command == "info" else ("-o", "out.h5")))
            assert "PB" in message or "too little" in message


@pytest.mark.parametrize("name", ["labels", "sample_names", "feature_names", "codebook"])
def test_anything_else_of_such_a_shape(refused_by_all, tmp_path, name):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.attrs.update({"format": "mccgr", "version": 1, "kind": "matrix"})
        file["X"] = planted()[0]
        shape, dtype = {"labels": ((HUGE,), "i8"), "codebook": ((24, HUGE), "f4")}.get(
            name, ((HUGE,), h5py.string_dtype())
        )
        file.create_dataset(name, shape, dtype, chunks=(1,) * len(shape))
    refused_by_all(tmp_path / "X.h5", f"/{name} takes")


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_parts_of_a_sparse_matrix_of_such_a_shape(refused, tmp_path, part):
    parts = {"data": np.ones(2), "indices": np.zeros(2, int), "indptr": np.array([0, 1, 2])}
    with h5py.File(tmp_path / "X.h5", "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = (2, 2)
        for name, values in parts.items():
            if name == part:
                group.create_dataset(name, (HUGE,), values.dtype, chunks=(1,))
            else:
                group[name] = values
    assert refused("factorize", tmp_path / "X.h5", "--k", 1, "--method", "l2")


def test_sparse_matrices_with_more_rows_than_memory(refused, tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"shape": (2**47, 2), "encoding-type": "csc_matrix"})
        group["data"], group["indices"], group["indptr"] = np.ones(2), [0, 1], [0, 1, 2]
    assert "of memory" in refused("cluster", tmp_path / "X.h5", "--k", 2)
    (tmp_path / "X.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n{HUGE} 2 1\n1 1 1\n")
    assert "of memory" in refused("cluster", tmp_path / "X.mtx", "--k", 2)
    (tmp_path / "X.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n2 2 {HUGE}\n1 1 1\n")
    assert "of memory" in refused("cluster", tmp_path / "X.mtx", "--k", 2)
    (tmp_path / "X.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 -5\n1 1 1\n")
    assert "not a readable .mtx" in refused("cluster", tmp_path / "X.mtx", "--k", 2)


def test_what_is_healthy_and_too_large_is_not_called_damaged(refused, X_file, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    assert "use a larger machine" in refused("cluster", X_file, "--k", 2)
    with h5py.File(tmp_path / "E.h5", "w") as file:
        file.create_dataset("X", (10_000, 10_000), "f8", chunks=(100, 100))
    assert "the file may be damaged" in refused("cluster", tmp_path / "E.h5", "--k", 2)


def test_chunks_larger_than_memory(refused_by_all, tmp_path, monkeypatch):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", (6, 4), "f8", chunks=(2**14, 2**14), maxshape=(None, None), compression="gzip")
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    refused_by_all(tmp_path / "X.h5", "takes 2.15 GB of memory, and 1.07 GB are free")


def test_compressed_bombs(refused_by_all, tmp_path, monkeypatch):
    """A few kB that unpack to more than there is memory for; there are 10 MB of it here."""
    for module in ("system.memory", "files.readers.text"):
        monkeypatch.setattr(f"mccgr_cli.{module}.available_memory", lambda: 10**7)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", (2000, 1000), "f8", chunks=(1000, 100), compression="gzip", fillvalue=1.0)
    monkeypatch.setattr("mccgr_cli.files.lazy_matrix.MOST_PACKED", 0)  # not to be left in its file
    refused_by_all(tmp_path / "X.h5", "of memory, and 10 MB are free")
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((1000, 2000)))
    with zipfile.ZipFile(tmp_path / "X.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", buffer.getvalue())
    refused_by_all(tmp_path / "X.npz", "takes 16 MB of memory")
    scipy_io.savemat(tmp_path / "X.mat", {"X": np.zeros((500, 4000))}, do_compression=True)
    refused_by_all(tmp_path / "X.mat", "of memory, and 10 MB are free")
    with gzip.open(tmp_path / "X.csv.gz", "wt") as file:
        file.write("0," * 3_000_000 + "\n")
    refused_by_all(tmp_path / "X.csv.gz", "more text or numbers than fit into the free memory, 10 MB")
    with gzip.open(tmp_path / "X.csv.gz", "wt") as file:
        file.write("0," * 60_000 + "\n")
    refused_by_all(tmp_path / "X.csv.gz", "more text or numbers")
    with gzip.open(tmp_path / "X.mtx.gz", "wt") as file:
        file.write("%%MatrixMarket matrix coordinate real general\n2 2 100000\n" + "1 1 1\n" * 1_000_000)
    refused_by_all(tmp_path / "X.mtx.gz", "more text or numbers than fit into the free memory, 10 MB")


def test_text_is_read_as_it_is(tmp_path):
    text = bytes(range(256)) * 1000
    (tmp_path / "text").write_bytes(text)
    with (tmp_path / "text").open("rb") as file, io.BufferedReader(Bounded(file, "text"), 1000) as whole:
        assert whole.read() == text
        whole.seek(300)
        assert whole.read(10) == text[300:310]


@pytest.mark.parametrize("shape", [(HUGE, 4), (-5, 4), (2**62, 2**62), (6, 5)])
def test_npy_that_declares_more_than_it_has(refused_by_all, tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8 * 24)
    (tmp_path / "X.npy").write_bytes(npy)
    refused_by_all(tmp_path / "X.npy", "not a readable .npy file")
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.writestr("X.npy", npy)
    refused_by_all(tmp_path / "X.npz", "not a readable .npz file")


@pytest.mark.slow
def test_a_million_columns(mccgr, refused, tmp_path):
    wide = tmp_path / "wide.csv"
    line = ",".join("12" for _ in range(1_000_000))
    wide.write_text(f"{line}\n{line}\n{line},5\n")
    assert "line 3: 1000001 fields where the first line has 1000000" in refused("info", wide)
    wide.write_text(f"{line}\n{line}\n{line}\n")
    assert mccgr("factorize", wide, "--k", 1, "--method", "l2", "--iterations", 2).status == 0


def test_limits_of_the_shell_are_heeded(monkeypatch):
    resource = pytest.importorskip("resource")
    before = memory.available_memory()
    status = memory.Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("needs /proc")
    used = int(status.read_text().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_AS: used + 10**6, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (limits[limit], limits[limit]))
    assert memory.available_memory() <= 10**6 < before


def test_limits_that_leave_nothing_for_libraries_are_told_at_once(refused, X_file, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "left_by_shell", lambda: iter([10**8]))
    message = refused("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    assert message == "ulimit: leaves 100 MB of memory to this process, and libraries take 600 MB; raise it"


# Types


class Recorder:
    """Would leave a trace if it were unpickled."""

    seen: list[int] = []  # noqa: RUF012

    def __reduce__(self):
        return Recorder.seen.append, (1,)


def test_pickles_are_never_opened(refused_by_all, refused, tmp_path):
    objects = np.empty((2, 2), dtype=object)
    objects[:] = Recorder()
    np.save(tmp_path / "X.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "X.npz", X=objects, allow_pickle=True)
    (tmp_path / "P.npy").write_bytes(pickle.dumps(Recorder()))
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = planted()[0]
        file["labels"] = np.void(pickle.dumps(Recorder()))
    Recorder.seen.clear()
    refused_by_all(tmp_path / "X.npy", "an array of Python objects, which mccgr does not open")
    refused_by_all(tmp_path / "X.npz", ".npz")
    refused_by_all(tmp_path / "P.npy", "not a readable .npy file")
    assert refused("evaluate", tmp_path / "X.h5", "--labels", tmp_path / "X.npy")
    assert Recorder.seen == []


@pytest.mark.parametrize(
    "values",
    [
        np.full((6, 4), b"text"),
        np.full((6, 4), 1 + 2j),
        np.zeros((6, 4), dtype=[("a", "f8"), ("b", "i4")]),
        np.zeros((6, 4), dtype="V8"),
        np.array([["a", "b"], ["c", "d"]], dtype=h5py.string_dtype()),
        np.array(5.0),
        np.ones(5),
        np.ones((2, 2, 2)),
        h5py.Empty("f8"),
        np.ones((0, 4)),
        np.ones((6, 0)),
    ],
    ids=str,
)
def test_values_of_the_wrong_type_or_shape(refused, tmp_path, values):
    for kind in ("plain", "ours"):
        with h5py.File(tmp_path / "X.h5", "w") as file:
            if kind == "ours":
                file.attrs.update({"format": "mccgr", "version": 1, "kind": "matrix"})
            file["X"] = values
        assert refused("factorize", tmp_path / "X.h5", "--k", 2)


def test_sparse_matrices_of_complex_numbers(refused_by_all, tmp_path):
    complex_values = sparse.csr_array(np.full((6, 4), 1 + 2j))
    sparse.save_npz(tmp_path / "X.npz", complex_values)
    refused_by_all(tmp_path / "X.npz", "complex numbers")
    for version in ("4", "5"):
        scipy_io.savemat(tmp_path / "X.mat", {"X": complex_values.tocsc()}, format=version)
        refused_by_all(tmp_path / "X.mat", "complex numbers")


@pytest.mark.parametrize("dtype", [h5py.vlen_dtype(np.float64), h5py.ref_dtype, h5py.regionref_dtype], ids=str)
def test_lists_and_references(refused, tmp_path, dtype):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.create_dataset("X", (2, 2), dtype)
    assert refused("factorize", tmp_path / "X.h5", "--k", 2)


SPARSE = {"data": [1.0, 2, 3], "indices": [0, 1, 2], "indptr": [0, 1, 2, 3], "shape": (3, 3)}


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": [0, -1, 2]},
        {"indices": [0, 1, 3]},
        {"indices": [0, 1, 2**40]},
        {"indices": [0, 1]},
        {"indices": [0.0, 1.0, 2.0]},
        {"indptr": [0, 2, 1, 3]},
        {"indptr": [0, 1, 2, 4]},
        {"indptr": [1, 1, 2, 3]},
        {"indptr": [0, 1, 3]},
        {"indptr": [0, -1, 2, 3]},
        {"indptr": []},
        {"shape": (3,)},
        {"shape": (-3, 3)},
        {"shape": (2.5, 3)},
        {"shape": "3 by 3"},
        {"shape": (3, 2**62)},
        {"data": [1.0, 2, np.nan]},
        {"data": [1.0, 2, -3]},
    ],
    ids=str,
)
def test_sparse_matrices_that_do_not_fit(refused_by_all, tmp_path, changed):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        group = file.create_group("X")
        parts = SPARSE | changed
        group.attrs["shape"] = parts.pop("shape")
        for name, values in parts.items():
            group[name] = values
    refused_by_all(tmp_path / "X.h5", "")


def test_indices_out_of_order_are_put_in_order(tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = (2, 3)
        group["data"], group["indices"], group["indptr"] = [3.0, 1.0, 2.0, 5.0], [2, 0, 0, 1], [0, 3, 4]
    found = load(str(tmp_path / "X.h5")).contents["X"].load()
    assert found.toarray().tolist() == [[3.0, 0.0, 3.0], [0.0, 5.0, 0.0]]
    assert found.has_canonical_format


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", 5),
        ("format", np.array([b"mccgr", b"mccgr"])),
        ("version", "one"),
        ("version", [1, 1]),
        ("version", -1),
        ("version", h5py.Empty("i8")),
        ("kind", 3),
        ("kind", np.array(["matrix", "matrix"], dtype=h5py.string_dtype())),
        ("kind", b"\xff\xfe"),
    ],
    ids=str,
)
def test_attributes_of_the_wrong_type(mccgr, X_file, name, value):
    with h5py.File(X_file, "r+") as file:
        file.attrs[name] = value
    outcome = mccgr("info", X_file)
    assert outcome.status in (0, 1)  # what does not call itself ours is some other file with an X in it
    assert len(outcome.stderr.splitlines()) == outcome.status


@pytest.mark.parametrize("value", [h5py.Empty("f8"), np.zeros(50_000 // 8), np.zeros(2, [("a", "f8")]), b"\xff", 2**63])
@pytest.mark.parametrize("name", ["method", "something"])
def test_parameters_of_the_wrong_type_are_no_traceback(mccgr, X_file, tmp_path, name, value):
    assert mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5").status == 0
    with h5py.File(tmp_path / "F.h5", "r+") as file:
        file.attrs[name] = value
    for command in (("cluster",), ("transform", X_file), ("info",), ("plot",)):
        output = () if command[0] == "info" else ("-o", tmp_path / f"out.{'svg' if command[0] == 'plot' else 'h5'}")
        files = (tmp_path / "F.h5", *command[1:])
        outcome = mccgr(command[0], *files, *output, *(() if command[0] == "info" else ("--overwrite",)))
        assert outcome.status in (0, 1)


PROVENANCES = {
    "no JSON": "{",
    "a list": "[1, 2]",
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"inputs": ' * 5_000 + "1" + "}" * 5_000,
    "a long number": "1" * 5000,
    "huge": json.dumps({"command": "x" * (1 << 25)}),
    "odd inside": json.dumps({"inputs": 5, "versions": [1], "parameters": "p", "time": {}, "command_line": 7}),
    "odd inputs": json.dumps({"inputs": [1, {"name": 5}, {"provenance": "x"}, None]}),
}


@pytest.mark.parametrize("text", PROVENANCES.values(), ids=PROVENANCES)
def test_provenance_that_is_no_provenance_does_not_stop_the_work(mccgr, X_file, tmp_path, text):
    with h5py.File(X_file, "r+") as file:
        file.attrs["provenance"] = text
    assert mccgr("info", X_file).status == 0
    assert mccgr("factorize", X_file, "--k", 2, "--iterations", 2, "-o", tmp_path / "F.h5").status == 0
    assert mccgr("info", tmp_path / "F.h5").status == 0
    assert (tmp_path / "F.h5").stat().st_size < 10**6


@pytest.mark.parametrize("value", [5, [1.0, 2.0], h5py.Empty("S5"), np.void(b"abc")], ids=str)
def test_provenance_of_another_type(mccgr, X_file, value):
    with h5py.File(X_file, "r+") as file:
        file.attrs["provenance"] = value
    assert mccgr("info", X_file).status == 0


def test_matlab_classes_that_are_no_matrix(refused_by_all, tmp_path):
    odd = {
        "cell": np.array([[1, "two"], [3.0, None or 0]], dtype=object),
        "struct": {"a": 1, "b": np.eye(3)},
        "text": "some text",
        "complex": np.full((3, 3), 1j),
    }
    for name, value in odd.items():
        scipy_io.savemat(tmp_path / "X.mat", {"X": value})
        refused_by_all(tmp_path / "X.mat", "")
        assert name


def part(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def mat_file(*variables):
    return bytes(124) + b"\x00\x01IM" + b"".join(variables)


def variable(name, kind, lengths, *parts, flags=0):
    head = part(6, struct.pack("<II", kind | flags, 0)) + part(5, struct.pack(f"<{len(lengths)}i", *lengths))
    return part(14, head + part(1, name) + b"".join(parts))


MATRIX = variable(b"X", 6, (6, 4), part(9, np.arange(24.0).tobytes()))


def test_matlab_files_that_declare_more_than_they_have(refused, tmp_path):
    text = variable(b"", 4, (1, 1), part(16, b"a"))
    declared = {
        "cells": variable(b"gnd", 1, (2 * 10**8, 1)),
        "cut": variable(b"gnd", 1, (6, 1), *[text] * 5),
        "letters": variable(b"gnd", 4, (2 * 10**8, 0), part(16, b"")),
        "numbers": variable(b"gnd", 6, (2 * 10**8, 1), part(9, bytes(8))),
        "negative": variable(b"gnd", 6, (-6, -1), part(9, bytes(48))),
    }
    for what, labels in declared.items():
        (tmp_path / "X.mat").write_bytes(mat_file(MATRIX, labels))
        assert "not a readable .mat file" in refused("info", tmp_path / "X.mat"), what
    (tmp_path / "X.mat").write_bytes(mat_file(*[part(1, b"")] * 10**5))
    assert "where a variable should be" in refused("info", tmp_path / "X.mat")


def test_matlab_files_as_matlab_writes_them(tmp_path):
    """Truth values in a sparse matrix take a byte each, whatever is said; and there may be what only MATLAB knows."""
    rows, starts = np.array([0, 2, 1], "<i4").tobytes(), np.array([0, 2, 3], "<i4").tobytes()
    truths = variable(b"X", 5, (3, 2), part(5, rows), part(5, starts), part(9, b"\1\1\1"), flags=0x200)
    opaque = part(14, part(6, struct.pack("<II", 17, 0)) + part(1, b"table") + part(1, b"MCOS"))
    (tmp_path / "X.mat").write_bytes(mat_file(opaque, truths))
    assert load(str(tmp_path / "X.mat")).contents["X"].load().toarray().tolist() == [[1, 0], [0, 1], [1, 0]]


def test_heaps_upon_heaps_are_looked_at_once(refused, tmp_path):
    """Marks of heaps that lie in each other, each said to be endless, and to have the same many entries."""
    path = hdf5(tmp_path / "X.h5", X=planted()[0])
    heaps = 5000
    with path.open("ab") as file:
        for left in reversed(range(heaps)):
            file.write(HEAP + (2**40).to_bytes(8, "little") + ENTRY.pack(1, 0, 0, 32 * left))
        file.write(ENTRY.pack(1, 0, 0, 0) * 50_000)
    assert "damaged HDF5 file (a heap at byte" in refused("info", path)


def test_heaps_are_found_wherever_they_begin(monkeypatch):
    content = b"x" * 1000 + HEAP + b"y" * 500 + HEAP[:4] + b"z" * 100 + HEAP
    for size in (1, 3, 7, 64, 2000):
        monkeypatch.setattr(readers, "HASH_BYTES", size)
        _, places = readers.look_through(io.BytesIO(content))
        assert places == [1000, content.rindex(HEAP)]


def test_names_with_zero_bytes_are_written(mccgr, tmp_path):
    X, _ = planted()
    names = np.array([f"s\0{i}" for i in range(len(X))], dtype="S8")
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.attrs.update({"format": "mccgr", "version": 1, "kind": "matrix"})
        file["X"] = X
        file["sample_names"] = names
    assert mccgr("factorize", tmp_path / "X.h5", "--k", 2, "-o", tmp_path / "F.h5").status == 0
    assert "\0" not in load(str(tmp_path / "F.h5"), kinds=("factors",)).contents["sample_names"][3]


def test_names_stay_text(mccgr, tmp_path):
    """What a terminal or a page would act on is shown, not done."""
    X, labels = planted()
    names = ["<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "a\nb", "\u202eright to left"]
    contents = Contents("matrix", {"X": X, "labels": labels, "label_names": names[:3]})
    path = tmp_path / "<script>alert(1)<.h5"
    path.write_bytes(encode(contents))
    factors, clusters = tmp_path / "F.h5", tmp_path / "C.h5"
    assert mccgr("factorize", path, "--k", 3, "-o", factors).status == 0
    assert mccgr("cluster", factors, "-o", clusters).status == 0
    for command in (("info", path), ("info", factors), ("evaluate", clusters, "--confusion")):
        assert "\x1b" not in mccgr(*command).stdout
    figure = tmp_path / "figure.svg"
    assert mccgr("plot", clusters, "--figure", "embedding", "-o", figure).status == 0
    assert "<script>" not in figure.read_text()
