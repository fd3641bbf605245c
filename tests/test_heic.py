"""Images of phones: HEIC and AVIF are read like other formats, and never ignored silently."""

from __future__ import annotations

import io
import struct
import subprocess
import sys

import numpy as np
import pytest
from grain import grainy, make_folder
from PIL import Image, ImageOps

from mccgr_cli.errors import DataError
from mccgr_cli.images import plugins
from mccgr_cli.images.decode import UnusableImage, decode
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.images.thumbnails import make_thumbnail

GREY = grainy(3.0, 0)
BOTH = pytest.mark.parametrize("suffix", [".heic", ".avif"])


def save(path, pixels, suffix=None, **options):
    """Write an image in the format of its suffix, or of another one."""
    form = plugins.FORMAT_OF[suffix or path.suffix]
    if not plugins.is_readable(form):
        pytest.skip(f"Pillow cannot write {form} here")
    plugins.load(form)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, form, quality=95, **options)
    return path


def refused(path, max_pixels=10**6):
    with pytest.raises(UnusableImage) as caught:
        decode(str(path), 500, max_pixels)
    return str(caught.value)


@BOTH
@pytest.mark.parametrize("name", ["a", "a.jpg"])
def test_they_are_read_whatever_they_are_called(tmp_path, suffix, name):
    path = save(tmp_path / name, np.dstack([GREY] * 3), suffix)
    found = decode(str(path), 500, 10**6)
    assert found.grey.shape == GREY.shape
    assert np.abs(found.grey - GREY).mean() < 4
    assert found.remarks == ()


@BOTH
@pytest.mark.parametrize("orientation", range(1, 9))
def test_they_are_turned_once(tmp_path, suffix, orientation):
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[:12, :16], pixels[-12:, :16] = 255, 128
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / f"a{suffix}", pixels, exif=exif.tobytes())
    image = Image.fromarray(pixels)
    image.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(image).convert("L"), np.float32)
    found = decode(str(path), 500, 10**6).grey
    assert found.shape == upright.shape
    assert np.abs(found - upright).mean() < 4
    with Image.open(io.BytesIO(make_thumbnail(str(path), 64, 10**6).data)) as thumbnail:
        assert np.abs(np.asarray(thumbnail.convert("L"), np.float32) - upright).mean() < 4


@BOTH
def test_transparent_parts_are_white(tmp_path, suffix):
    pixels = np.zeros((32, 32, 4), np.uint8)
    pixels[16:, :, 3] = 255
    found = decode(str(save(tmp_path / f"a{suffix}", pixels)), 500, 10**6)
    assert found.grey[:14].min() > 250
    assert found.grey[18:].max() < 5


@BOTH
def test_pixels_are_counted_before_they_are_decoded(tmp_path, suffix, monkeypatch):
    path = save(tmp_path / f"a{suffix}", np.dstack([GREY] * 3))
    decode(str(path), 500, 10**6)  # loads the plugins of Pillow, some of which load images of their own
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
    assert "more than --max-pixels 100" in refused(path, max_pixels=100)
    assert "more than --max-pixels 100" in str(make_thumbnail(str(path), 64, 100).fault)


@pytest.mark.parametrize("size", [(4, 4), (9000, 9000)])
def test_a_header_that_lies_about_the_size_is_refused(tmp_path, size):
    path = save(tmp_path / "a.heic", np.dstack([np.tile(GREY, (4, 4))] * 3))
    content = path.read_bytes()
    place = content.index(b"ispe") + 8
    path.write_bytes(content[:place] + struct.pack(">II", *size) + content[place + 8 :])
    refused(path, max_pixels=10**8)


@BOTH
def test_damaged_ones_are_refused(tmp_path, suffix):
    path = save(tmp_path / f"a{suffix}", np.dstack([GREY] * 3))
    content = path.read_bytes()
    for length in (0, 8, 12, 40, 100, len(content) // 2, len(content) - 100):
        path.write_bytes(content[:length])
        refused(path)


@BOTH
def test_they_are_images_by_their_suffix(mccgr, tmp_path, suffix):
    folder = make_folder(tmp_path / "images", each=2)
    save(folder / "fine" / f"phone{suffix.upper()}", np.dstack([GREY] * 3), suffix)
    outcome = mccgr("extract", folder, "--words", 5, "--jobs", 0, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    assert "images used: 5, all of them" in outcome.stderr
    assert "ignored" not in outcome.stderr


# Where they cannot be read


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(plugins, "is_readable", lambda form: False)


@pytest.fixture
def photos(tmp_path):
    folder = make_folder(tmp_path / "images", each=2)
    (folder / "fine" / "a.heic").write_bytes(b"\0\0\0\x1cftypheic")
    (folder / "fine" / "b.HEIC").write_bytes(b"\0\0\0\x1cftypheic")
    (folder / "fine" / "c.avif").write_bytes(b"\0\0\0\x1cftypavif")
    return folder


def test_without_the_plugin_one_line_says_what_to_install(mccgr, photos, nothing_installed, tmp_path):
    arguments = ("extract", photos, "--words", 5, "--jobs", 0, "-o", tmp_path / "X.h5")
    message = refused_by(mccgr, *arguments, "--strict")
    assert "fine/a.heic: cannot be read here; pip install 'mccgr-cli[heic]', or leave out --strict" in message
    outcome = mccgr(*arguments)
    assert outcome.status == 0
    lines = outcome.stderr.splitlines()
    assert "skipped 2 .heic files: to read them, pip install 'mccgr-cli[heic]'" in lines
    assert "skipped 1 .avif file: to read them, pip install --upgrade pillow" in lines
    assert "images used: 4, all of them" in lines


def refused_by(mccgr, *arguments):
    outcome = mccgr(*arguments)
    assert outcome.status == 1
    return outcome.stderr


def test_a_folder_of_nothing_else_says_what_to_install(tmp_path, nothing_installed):
    (tmp_path / "a.heic").write_bytes(b"x")
    with pytest.raises(
        DataError, match=r"no image that can be read, but 1 .heic file; pip install 'mccgr-cli\[heic\]'"
    ):
        images_in_folder(str(tmp_path))
    (tmp_path / "a.heic").rename(tmp_path / "a.txt")
    with pytest.raises(DataError) as caught:
        images_in_folder(str(tmp_path))
    assert ".heic" not in str(caught.value)


def test_one_that_is_named_says_what_to_install(photos, nothing_installed):
    assert refused(photos / "fine" / "a.heic") == "a HEIC image: it needs pip install 'mccgr-cli[heic]'"
    assert refused(photos / "fine" / "c.avif") == "an AVIF image: it needs pip install --upgrade pillow"


# Files that are ignored


def test_files_that_are_not_images_are_named(mccgr, tmp_path):
    folder = make_folder(tmp_path / "images", each=2)
    for name in ("notes.txt", "a.mov", "b.mov", "README"):
        (folder / "fine" / name).write_text("x")
    outcome = mccgr("extract", folder, "--words", 5, "--jobs", 0, "-o", tmp_path / "X.h5", "-v")
    line = (
        "ignored 4 files that are not images by their suffix (2 .mov, 1 .txt, 1 without a suffix): "
        "fine/README, fine/a.mov, fine/b.mov, ..."
    )
    assert line in outcome.stderr.splitlines()
    assert "ignored fine/notes.txt" in outcome.stderr.splitlines()


def test_nobody_else_waits_for_the_plugin(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    code = (
        "import sys\nfrom mccgr_cli.images import decode, find\n"
        f"found = find.images_in_folder({str(tmp_path)!r})\n"
        "decode.decode(found.images[0].path, 500, 10**6)\n"
        "assert 'pillow_heif' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
