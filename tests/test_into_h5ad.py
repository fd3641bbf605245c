"""Results are added to an AnnData file. Everything else in it stays as it was, whatever happens."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mccgr_cli.files import atomic_write
from mccgr_cli.files.atomic_write import REMEDIES, OutputLock, write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.output.export.into_h5ad import KEYS

N, D, K = 9, 6, 3
CELLS = [f"cell-{i}" for i in range(N)]
GENES = [f"gene-{j}" for j in range(D)]
ADDED = {
    "obs": ["mccgr_cluster", "mccgr_certainty", "mccgr_outlier"],
    "var": ["mccgr_weight", "mccgr_silenced"],
    "obsm": ["X_mccgr"],
    "varm": ["mccgr"],
    "obsp": ["mccgr_connectivities"],
    "uns": ["mccgr", "mccgr_neighbors"],
}


def rich() -> anndata.AnnData:
    """All kinds of things that people keep in a file."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((N, D), density=0.6, rng=rng, format="csr", dtype=np.float32)
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(["T", "B", None] * 3, ordered=True, categories=["B", "T", "NK"]),
            "batch": ["a", "b", "c"] * 3,
            "count": pd.array([1, None, 3] * 3, dtype="Int64"),
            "good": pd.array([True, None, False] * 3, dtype="boolean"),
            "depth": np.arange(N) / 3,
        },
        index=pd.Index(CELLS, name="barcode"),
    )
    var = pd.DataFrame({"kind": pd.Categorical(["x", "y"] * 3), "mean": rng.random(D)}, index=GENES)
    data = anndata.AnnData(X, obs=obs, var=var)
    data.raw = anndata.AnnData(rng.random((N, D + 2)), var=pd.DataFrame(index=[*GENES, "more", "most"]))
    data.layers["counts"] = np.round(rng.random((N, D)) * 9)
    data.layers["columns"] = sparse.csc_matrix(data.layers["counts"])
    data.obsm["X_pca"] = rng.random((N, 2))
    data.obsm["frame"] = pd.DataFrame({"u": np.arange(N)}, index=CELLS)
    data.varm["PCs"] = rng.random((D, 2))
    data.obsp["distances"] = sparse.csr_matrix(np.eye(N))
    data.varp["r"] = np.eye(D)
    data.uns = {"nested": {"deep": {"a": 1, "b": "text", "c": np.arange(3)}}, "colors": ["#f00"], "none": 0.5}
    return data


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    rich().write_h5ad(tmp_path / "cells.h5ad", compression="gzip")
    return tmp_path / "cells.h5ad"


def results(**changed: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    found = {
        "assignments": np.arange(N) * 7 % K,
        "certainty": np.linspace(-1, 1, N),
        "outlier": np.linspace(0.5, 2, N),
        "W": rng.random((N, K)),
        "H": rng.random((K, D)),
        "rho": np.linspace(0, 1, D),
        **{f"history/{name}": np.ones(2) for name in ("objective", "data", "graph", "sigma", "seconds")},
        "sample_names": CELLS,
        "feature_names": GENES,
    }
    return {name: value for name, value in (found | changed).items() if value is not None}


def stored(path: Path, kind: str = "clusters", **changed: Any) -> Path:
    write_files({path: encode(Contents(kind, results(**changed), {"k": K, "form": "orthogonal"}))}, overwrite=True)
    return path


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    return stored(tmp_path / "c.h5")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    ring = sparse.csr_array(np.roll(np.eye(N), 1, axis=1))
    contents = Contents("graph", {"A": ring + ring.T, "sample_names": CELLS}, {"neighbors": 2})
    write_files({tmp_path / "g.h5": encode(contents)}, overwrite=False)
    return tmp_path / "g.h5"


def dense(value: Any) -> Any:
    return value.toarray() if sparse.issparse(value) else value


def assert_equal(ours: Any, theirs: Any) -> None:
    """Two AnnData objects, or parts of them, are the same."""
    assert type(ours) is type(theirs)
    if isinstance(ours, anndata.AnnData):
        for name in ("X", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"):
            assert_equal(getattr(ours, name), getattr(theirs, name))
        assert_equal(ours.raw.X, theirs.raw.X)
        assert_equal(ours.raw.var, theirs.raw.var)
    elif isinstance(ours, pd.DataFrame):
        pd.testing.assert_frame_equal(ours, theirs)
    elif hasattr(ours, "keys"):
        assert list(ours.keys()) == list(theirs.keys())
        for key in ours:
            assert_equal(ours[key], theirs[key])
    else:
        np.testing.assert_array_equal(dense(ours), dense(theirs))


def without_ours(data: anndata.AnnData) -> anndata.AnnData:
    for place, names in ADDED.items():
        held = getattr(data, place)
        for name in names:
            if name in held:
                del held[name]
    return data


def raw_bytes(path: Path) -> dict[str, tuple[Any, ...]]:
    """Every dataset as it is stored, chunk by chunk, with its attributes."""
    found: dict[str, tuple[Any, ...]] = {}

    def take(name: str, node: Any) -> None:
        if not name.startswith(KEYS):
            attributes = {key: str(value) for key, value in node.attrs.items() if key != "column-order"}
            chunks = []
            if isinstance(node, h5py.Dataset) and node.chunks:
                node.id.chunk_iter(lambda chunk: chunks.append(node.id.read_direct_chunk(chunk.chunk_offset)))
            found[name] = (attributes, chunks, str(node[()]) if isinstance(node, h5py.Dataset) else "")

    with h5py.File(path) as file:
        file.visititems(take)
    return found


def test_anndata_reads_the_results_and_everything_that_was_there(mccgr, cells, clusters, graph):
    before, stored_before = anndata.read_h5ad(cells), raw_bytes(cells)
    outcome = mccgr("export", clusters, "--graph", graph, "--into", cells)
    assert outcome.status == 0, outcome.stderr
    assert "added obs/mccgr_cluster" in outcome.stderr
    after, given = anndata.read_h5ad(cells), results()
    assert list(after.obs.columns) == [*before.obs.columns, *ADDED["obs"]]
    assert list(after.var.columns) == [*before.var.columns, *ADDED["var"]]
    assert after.obs["mccgr_cluster"].dtype == "category"
    assert after.obs["mccgr_cluster"].tolist() == [str(number) for number in given["assignments"]]
    np.testing.assert_array_equal(after.obs["mccgr_certainty"], given["certainty"])
    np.testing.assert_array_equal(after.obs["mccgr_outlier"], given["outlier"])
    np.testing.assert_array_equal(after.obsm["X_mccgr"], given["W"])
    np.testing.assert_array_equal(after.varm["mccgr"], given["H"].T)
    np.testing.assert_array_equal(after.var["mccgr_weight"], given["rho"])
    assert after.var["mccgr_silenced"].tolist() == (given["rho"] < 0.01).tolist()
    assert after.obsp["mccgr_connectivities"].sum() == 2 * N
    assert after.uns["mccgr_neighbors"]["connectivities_key"] == "mccgr_connectivities"
    assert after.uns["mccgr"]["parameters"]["k"] == K
    assert "sha256" in after.uns["mccgr"]["provenance"]
    assert_equal(without_ours(after), before)
    assert raw_bytes(cells) == stored_before


def test_samples_and_features_are_joined_by_name(mccgr, cells, tmp_path):
    rng = np.random.default_rng(2)
    rows, columns, given = rng.permutation(N), rng.permutation(D), results()
    shuffled = {name: given[name][rows] for name in ("assignments", "certainty", "outlier", "W")}
    shuffled |= {"H": given["H"][:, columns], "rho": given["rho"][columns]}
    names = {"sample_names": [CELLS[i] for i in rows], "feature_names": [GENES[j] for j in columns]}
    ring = np.roll(np.eye(N), 1, axis=1)
    A = (ring + ring.T)[rows][:, rows]
    write_files({tmp_path / "g.h5": encode(Contents("graph", {"A": A, "sample_names": names["sample_names"]}))}, False)
    path = stored(tmp_path / "c.h5", **shuffled, **names)
    assert mccgr("export", path, "--graph", tmp_path / "g.h5", "--into", cells).status == 0
    after = anndata.read_h5ad(cells)
    assert after.obs["mccgr_cluster"].tolist() == [str(number) for number in given["assignments"]]
    np.testing.assert_array_equal(after.obsm["X_mccgr"], given["W"])
    np.testing.assert_array_equal(after.varm["mccgr"], given["H"].T)
    np.testing.assert_array_equal(after.var["mccgr_weight"], given["rho"])
    np.testing.assert_array_equal(after.obsp["mccgr_connectivities"].toarray(), ring + ring.T)


def test_a_file_with_some_of_the_samples_gets_their_results(mccgr, refused, tmp_path, clusters, graph):
    kept = [5, 2, 7]
    rich()[kept].copy().write_h5ad(tmp_path / "some.h5ad")
    before = anndata.read_h5ad(tmp_path / "some.h5ad")
    outcome = mccgr("export", clusters, "--graph", graph, "--into", tmp_path / "some.h5ad")
    assert outcome.status == 0, outcome.stderr
    assert f"has 3 of the 9 samples of {clusters}" in outcome.stderr
    after, given = anndata.read_h5ad(tmp_path / "some.h5ad"), results()
    assert after.obs["mccgr_cluster"].tolist() == [str(number) for number in given["assignments"][kept]]
    np.testing.assert_array_equal(after.obsm["X_mccgr"], given["W"][kept])
    assert after.obsp["mccgr_connectivities"].shape == (3, 3)
    assert_equal(without_ours(after), before)
    fewer = {name: given[name][:5] for name in ("assignments", "certainty", "outlier", "W")}
    path = stored(tmp_path / "f.h5", **fewer, sample_names=CELLS[:5])
    message = refused("export", path, "--into", tmp_path / "some.h5ad", "--overwrite")
    assert "2 of its 3 samples are not in" in message


def test_without_names_the_order_counts_and_this_is_said(mccgr, cells, tmp_path):
    path = stored(tmp_path / "c.h5", sample_names=None, feature_names=None)
    outcome = mccgr("export", path, "--into", cells)
    assert outcome.status == 0
    assert "no names of samples: joined to" in outcome.stderr
    assert "no names of features: joined to" in outcome.stderr
    np.testing.assert_array_equal(anndata.read_h5ad(cells).obsm["X_mccgr"], results()["W"])


MORE = [*GENES, "more", "most"]


@pytest.mark.parametrize("names", [MORE, None, [f"other-{j}" for j in range(D)]])
def test_a_basis_of_other_features_goes_into_uns_and_this_is_said(mccgr, cells, tmp_path, names):
    d = D if names and names != MORE else len(MORE)
    H = np.random.default_rng(3).random((K, d))
    path = stored(tmp_path / "c.h5", H=H, rho=np.ones(d), feature_names=names)
    outcome = mccgr("export", path, "--into", cells)
    assert outcome.status == 0, outcome.stderr
    assert "go into uns['mccgr']['features']" in outcome.stderr
    after = anndata.read_h5ad(cells)
    frame = after.uns["mccgr"]["features"]
    assert list(frame.index) == (names or [str(j) for j in range(d)])
    np.testing.assert_array_equal(frame[[f"component_{i}" for i in range(K)]].to_numpy(), H.T)
    assert "mccgr" not in after.varm


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sample_names": [*CELLS[:-2], "x", "y"]}, ["2 of its 9 samples are", "('cell-7', 'cell-8')", "('x', 'y')"]),
        ({"sample_names": [f"z{i}" for i in range(N)]}, ["9 of its 9 samples", "('cell-0', 'cell-1', 'cell-2', ...)"]),
        ({"sample_names": [*CELLS[:-1], CELLS[0]]}, ["1 of its 9 samples", "and 0 of the 9"]),
    ],
)  # fmt: skip
def test_other_samples_are_refused_with_examples(refused, cells, tmp_path, changed, told):
    before = cells.read_bytes()
    message = refused("export", stored(tmp_path / "c.h5", **changed), "--into", cells)
    assert message.startswith(f"{cells}: ")
    assert all(words in message for words in told), message
    assert cells.read_bytes() == before


def test_names_that_occur_twice_are_joined_only_in_the_same_order(mccgr, refused, tmp_path):
    data, twice = rich(), [*CELLS[:-1], CELLS[0]]
    data.obs_names = twice
    del data.obsm["frame"]
    data.write_h5ad(tmp_path / "twice.h5ad")
    path = stored(tmp_path / "c.h5", sample_names=twice[::-1])
    assert "have the same name" in refused("export", path, "--into", tmp_path / "twice.h5ad")
    path = stored(tmp_path / "c.h5", sample_names=twice)
    assert mccgr("export", path, "--into", tmp_path / "twice.h5ad").status == 0


def test_numbers_of_samples_that_differ_are_refused(refused, cells, tmp_path):
    given = results()
    fewer = {name: given[name][:5] for name in ("assignments", "certainty", "outlier", "W")}
    path = stored(tmp_path / "c.h5", **fewer, sample_names=None)
    assert f"{cells}: 9 samples where {path} has 5" in refused("export", path, "--into", cells)


def test_an_earlier_result_is_replaced_as_a_whole_and_only_with_overwrite(mccgr, refused, cells, clusters, tmp_path):
    before = anndata.read_h5ad(cells)
    assert mccgr("export", clusters, "--into", cells).status == 0
    held = cells.read_bytes()
    message = refused("export", clusters, "--into", cells)
    assert "has obs/mccgr_cluster, obs/mccgr_certainty" in message
    assert "--overwrite" in message
    assert cells.read_bytes() == held
    factors = stored(tmp_path / "f.h5", "factors", assignments=None, certainty=None, W=np.ones((N, K)))
    assert mccgr("export", factors, "--into", cells, "--overwrite").status == 0
    after = anndata.read_h5ad(cells)
    assert "mccgr_cluster" not in after.obs  # it would not be of this W
    assert (after.obsm["X_mccgr"] == 1).all()
    assert_equal(without_ours(after), before)


def test_results_that_replace_others_take_their_room(mccgr, cells, tmp_path):
    W, H = np.ones((N, 4000)), np.ones((4000, D))
    path = stored(tmp_path / "c.h5", W=W, H=H)
    for _ in range(6):
        assert mccgr("export", path, "--into", cells, "--overwrite").status == 0
    assert cells.stat().st_size < 3 * (W.nbytes + H.nbytes)


def test_mode_and_links_stay(mccgr, cells, clusters, tmp_path):
    cells.chmod(0o640)
    (tmp_path / "link.h5ad").symlink_to("cells.h5ad")
    assert mccgr("export", clusters, "--into", tmp_path / "link.h5ad").status == 0
    assert (tmp_path / "link.h5ad").is_symlink()
    assert cells.stat().st_mode & 0o777 == 0o640
    assert "mccgr_cluster" in anndata.read_h5ad(cells).obs


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(mccgr, cells, clusters):
    os.chown(cells, 1234, 1234)
    assert mccgr("export", clusters, "--into", cells).status == 0
    assert (cells.stat().st_uid, cells.stat().st_gid) == (1234, 1234)


def test_a_read_only_file_is_not_replaced(refused, cells, clusters):
    cells.chmod(0o444)
    before = cells.read_bytes()
    assert refused("export", clusters, "--into", cells).endswith(f"is read-only; allow writing it: chmod u+w {cells}")
    assert cells.read_bytes() == before
    assert not leftovers(cells.parent)


def test_a_folder_that_cannot_be_written_is_said(refused, cells, clusters, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    message = refused("export", clusters, "--into", cells)
    assert message.endswith(f"no permission to write to the folder {cells.parent}; {REMEDIES[errno.EACCES]}")


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".mccgr." in path.name]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_run_that_ends_half_way_leaves_the_file_as_it_was(mccgr, cells, clusters, monkeypatch, fault):
    from mccgr_cli.output.export import into_h5ad

    before = cells.read_bytes()

    def fail(*_):
        raise fault

    monkeypatch.setattr(into_h5ad, "order_columns", fail)
    assert mccgr("export", clusters, "--into", cells).status != 0
    assert cells.read_bytes() == before
    assert not leftovers(cells.parent)


@pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="needs a limit on file sizes")
def test_a_full_disk_leaves_the_file_as_it_was(cells, tmp_path):
    """A limit on the size of files stands in for the full disk, once for the copy and once for what is added."""
    before = cells.read_bytes()
    wide = stored(tmp_path / "c.h5", W=np.ones((N, 40_000)), H=np.ones((40_000, D)))
    for blocks in (4, len(before) // 1024 + 8):
        command = f"trap '' XFSZ; ulimit -f {blocks}; {sys.executable} -m mccgr_cli export {wide} --into {cells} -q"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert cells.read_bytes() == before
        assert not leftovers(tmp_path)


def test_two_runs_do_not_write_at_once(refused, cells, clusters):
    lock = OutputLock(cells, overwrite=True)
    try:
        assert "another run is writing it" in refused("export", clusters, "--into", cells)
    finally:
        lock.release()


def test_a_file_that_another_program_changes_meanwhile_is_not_replaced(refused, cells, clusters, monkeypatch):
    copy = shutil.copyfile

    def late(source, target):
        copy(source, target)
        cells.with_name("new").write_bytes(b"changed")
        cells.with_name("new").replace(cells)

    monkeypatch.setattr(atomic_write.shutil, "copyfile", late)
    assert "another program has changed it meanwhile" in refused("export", clusters, "--into", cells)
    assert cells.read_bytes() == b"changed"
    assert not leftovers(cells.parent)


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--into", "none.h5ad"], 1, "none.h5ad: no such file"),
        (["--into", "c.h5"], 1, "c.h5: is also an input"),
        (["--into", "other.h5"], 1, "/obs is not stored as anndata since version 0.8 stores it"),
        (["--into", "text.h5ad"], 1, "not an AnnData file"),
        (["--into", "cells.h5ad::raw"], 1, "results go into the whole file; leave out ::raw"),
        (["--into", "-"], 2, "name an .h5ad file"),
        (["--into", "cells.h5ad", "-o", "new.h5ad"], 2, "--output: has no effect with --into"),
        (["--into", "cells.h5ad", "--what", "W"], 2, "--what: has no effect with --into"),
        (["--into", "cells.h5ad", "--matrix", "cells.h5ad"], 2, "--matrix: has no effect with --into"),
        (["--into", "cells.h5ad", "--format", "csv"], 2, "leave out --format"),
    ],
)
def test_refusals(refused, monkeypatch, cells, clusters, tmp_path, arguments, status, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.h5ad").write_text("a,b\n")
    with h5py.File("other.h5", "w") as file:
        file["obs/x"] = [1]
    before = cells.read_bytes()
    assert told in refused("export", "c.h5", *arguments, status=status)
    assert cells.read_bytes() == before
    assert not leftovers(tmp_path)


def test_only_results_are_added(refused, cells):
    assert "holds a matrix where factors or clusters should be" in refused("export", cells, "--into", cells)
