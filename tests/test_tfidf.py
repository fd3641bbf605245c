"""tf-idf rows: those of scikit-learn, the same wherever X is, and with the old weights for new samples."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from mccgr_cli import MCCGR
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.rows import idf_for, normalize
from mccgr_cli.files.container import Contents, encode

WORDS = [f"w{j}" for j in range(40)]
FORMATS = {"dense": np.asarray, "sparse": sparse.csr_array}
each_format = pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
pytestmark = pytest.mark.usefixtures("quick_choice")


def word_counts(n=90, seed=0):
    """Counts of words of three topics; the first ten words occur in all of them."""
    rng = np.random.default_rng(seed)
    rates = np.full((3, 40), 0.05)
    rates[:, :10] = 2.0
    for topic in range(3):
        rates[topic, 10 + 10 * topic : 20 + 10 * topic] = 1.0
    return rng.poisson(rates[np.arange(n) % 3]).astype(float)


def write(path, X, names=WORDS):
    path.write_bytes(encode(Contents("matrix", {"X": X, "feature_names": names})))
    return path


def done(outcome):
    assert outcome.status == 0, outcome.stderr
    return outcome


def datasets(path, *names):
    with h5py.File(path) as file:
        return [file[name][()] for name in names]


@pytest.fixture
def factors(mccgr, tmp_path):
    path = tmp_path / "F.h5"
    done(mccgr("factorize", write(tmp_path / "X.h5", word_counts()), "--k", 3, "--normalize", "tfidf", "-o", path))
    return path


@each_format
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_those_of_scikit_learn(make, dtype):
    X = word_counts().astype(dtype)
    X[3] = 0
    theirs = TfidfTransformer(sublinear_tf=True).fit_transform(sparse.csr_array(X)).toarray()
    ours = normalize(make(X.copy()), "tfidf")
    np.testing.assert_allclose(ours.toarray() if sparse.issparse(ours) else ours, theirs, rtol=1e-5)


def test_stored_zeros_are_no_words():
    X = sparse.csr_array(word_counts())
    stored = X.copy()
    stored.data[::3] = 0
    clean = stored.copy()
    clean.eliminate_zeros()
    np.testing.assert_array_equal(*(idf_for("tfidf", MemoryBlocks(one)) for one in (stored, clean)))


@each_format
def test_the_same_bytes_from_memory_from_a_file_and_when_blocks_are_small(mccgr, tmp_path, monkeypatch, make):
    from mccgr_cli.workflow import placement

    path, found = write(tmp_path / "X.h5", make(word_counts())), []
    for stays in (False, True):
        monkeypatch.setattr(placement.Room, "is_exceeded_by", lambda *_, stays=stays: stays)
        out = tmp_path / f"F{stays}.h5"
        outcome = done(mccgr("factorize", path, "--k", 3, "--normalize", "tfidf", "-o", out))
        assert ("stays in its file" in outcome.stderr) == stays
        found.append(datasets(out, "W", "H", "rho", "idf"))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("command", ["transform", "predict"])
def test_new_samples_get_the_weights_of_the_old_ones(mccgr, factors, tmp_path, command):
    """A sample alone, whatever the order of its words, gets what it gets among all samples."""
    model = factors
    if command == "predict":
        model = tmp_path / "C.h5"
        done(mccgr("cluster", factors, "-o", model))
    found = []
    order = np.random.default_rng(1).permutation(40)
    some = write(tmp_path / "some.h5", word_counts()[:2][:, order], [WORDS[j] for j in order])
    for new, out in ((tmp_path / "X.h5", "all.h5"), (some, "two.h5")):
        done(mccgr(command, model, new, "-o", tmp_path / out))
        found.append(datasets(tmp_path / out, "W" if command == "transform" else "outlier")[0][:2])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_a_killed_run_continues_to_the_same_bytes(mccgr, factors, tmp_path):
    state, out = tmp_path / "run.h5", tmp_path / "again.h5"
    options = ("--k", 3, "--normalize", "tfidf", "--checkpoint", state, "--checkpoint-every", 0, "-o", out)
    from mccgr_cli.core import solver

    calls = iter(range(100))
    real = solver.Step

    def stop_at_the_third(*arguments, **named):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(solver, "Step", stop_at_the_third)
        assert mccgr("factorize", tmp_path / "X.h5", *options).status == 130
    assert state.exists()
    done(mccgr("factorize", "--resume", state))
    for one, other in zip(datasets(out, "W", "H", "idf"), datasets(factors, "W", "H", "idf"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_python_gives_the_same_as_the_commands(mccgr, factors, tmp_path):
    X = word_counts()
    model = MCCGR(n_components=3, normalize="tfidf").fit(X)
    W, idf = datasets(factors, "W", "idf")
    np.testing.assert_array_equal(model.embedding_, W)
    np.testing.assert_array_equal(model.idf_, idf)
    np.testing.assert_allclose(model.transform(X[:2]), model.transform(X)[:2], rtol=1e-6)
    assert model.predict(X[:5]).tolist() == model.labels_[:5].tolist()


@pytest.mark.parametrize(
    "arguments",
    [("cluster", "--k", 3), ("graph", "--k", 3), ("rank", "--k", "2-3", "--runs", 2, "--jobs", 0)],
    ids=lambda arguments: arguments[0],
)
def test_every_command_that_normalizes_knows_it(mccgr, tmp_path, arguments):
    name, *options = arguments
    X = write(tmp_path / "X.h5", word_counts())
    done(mccgr(name, X, *options, "--normalize", "tfidf", "-o", tmp_path / "out.h5"))
    with h5py.File(tmp_path / "out.h5") as file:
        assert file.attrs["normalize"] == "tfidf"


def test_top_normalizes_the_matrix_as_it_was_clustered(mccgr, factors, tmp_path):
    done(mccgr("cluster", factors, "-o", tmp_path / "C.h5"))
    done(mccgr("top", tmp_path / "C.h5", "--matrix", tmp_path / "X.h5"))
    baseline = ("cluster", tmp_path / "X.h5", "--k", 3, "--normalize", "tfidf", "-o", tmp_path / "B.h5")
    done(mccgr(*baseline))
    done(mccgr("top", tmp_path / "B.h5", "--matrix", tmp_path / "X.h5"))


def test_factors_without_their_weights_are_refused(refused, factors, tmp_path):
    with h5py.File(factors, "a") as file:
        del file["idf"]
    said = refused("transform", factors, tmp_path / "X.h5", "-o", tmp_path / "W.h5")
    assert said.endswith("rows normalized by tfidf, without /idf; make the file again")
