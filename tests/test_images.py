"""Find and decode images of all kinds; files that are not images get a clear reason."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from grain import grainy, make_folder, save
from PIL import Image, ImageOps

from mccgr_cli.errors import DataError
from mccgr_cli.images.decode import UnusableImage, decode
from mccgr_cli.images.find import images_in_folder, images_on_list

GREY = grainy(3.0, 0)


def decoded(path, max_size=500, max_pixels=10**6):
    return decode(str(path), max_size, max_pixels)


def refused(path, max_size=500, max_pixels=10**6):
    with pytest.raises(UnusableImage) as caught:
        decode(str(path), max_size, max_pixels)
    return str(caught.value)


# Formats


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tif", "webp", "pgm", "jp2"])
def test_formats_without_loss_give_the_same_grey(tmp_path, suffix):
    options = {"webp": {"lossless": True}, "jp2": {"irreversible": False}}.get(suffix, {})
    path = save(tmp_path / f"a.{suffix}", GREY, **options)
    np.testing.assert_allclose(decoded(path).grey, GREY, atol=1)


def test_a_jpeg(tmp_path):
    path = save(tmp_path / "a.jpg", np.dstack([GREY] * 3), quality=95)
    assert np.abs(decoded(path).grey - GREY).mean() < 2
    assert decoded(path).remarks == ()


def test_16_bits_are_scaled_to_the_same_grey(tmp_path):
    path = save(tmp_path / "a.png", GREY.astype(np.uint16) * 257)
    np.testing.assert_allclose(decoded(path).grey, GREY, atol=0.01)
    assert decoded(path).remarks == ("scaled from more than 8 bits",)


def test_real_numbers_are_scaled_from_darkest_to_brightest(tmp_path):
    path = save(tmp_path / "a.tif", GREY.astype(np.float32) / 1000 - 7)
    np.testing.assert_allclose(decoded(path).grey, GREY, atol=0.01)
    save(path, np.full((9, 9), np.nan, np.float32))
    assert "NaN" in refused(path)
    save(path, np.full((9, 9), 3.5, np.float32))
    assert decoded(path).grey.max() == 0


def test_a_palette(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(GREY).convert("P").save(path)
    np.testing.assert_allclose(decoded(path).grey, GREY, atol=1)


def test_transparent_parts_are_white(tmp_path):
    alpha = np.full_like(GREY, 255)
    alpha[:20] = 0
    path = save(tmp_path / "a.png", np.dstack([GREY, GREY, GREY, alpha]))
    assert np.all(decoded(path).grey[:20] == 255)
    np.testing.assert_allclose(decoded(path).grey[20:], GREY[20:], atol=1)
    assert "white" in decoded(path).remarks[0]
    alpha[:] = 255
    save(path, np.dstack([GREY, GREY, GREY, alpha]))
    assert decoded(path).remarks == ()


def test_a_palette_with_transparency(tmp_path):
    path = tmp_path / "a.png"
    image = Image.fromarray(np.where(GREY > 128, 0, 1).astype(np.uint8)).convert("P")
    image.putdata(np.where(GREY > 128, 0, 1).ravel().tolist())
    image.putpalette([0, 0, 0, 100, 100, 100])
    image.save(path, transparency=0)
    np.testing.assert_array_equal(decoded(path).grey, np.where(GREY > 128, 255, 100))


def test_cmyk_is_converted(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(np.dstack([GREY] * 3)).convert("CMYK").save(path, quality=95)
    assert np.abs(decoded(path).grey - GREY).mean() < 3
    assert decoded(path).remarks == ("converted from CMYK",)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(10))
def test_images_are_turned_as_their_exif_says(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 95}, "webp": {"lossless": True}}.get(suffix, {})
    path = save(tmp_path / f"a.{suffix}", GREY, exif=exif, **options)
    with Image.open(save(tmp_path / "by_pillow.png", GREY, exif=exif)) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("L"), dtype=np.float32)
    assert np.abs(decoded(path).grey - upright).mean() < 2
    if suffix != "tif":  # Pillow turns TIFF itself, without a remark
        assert decoded(path).remarks == (("turned as EXIF says",) if 2 <= orientation <= 8 else ())
    small = decoded(path, max_size=32).grey
    assert small.shape == ((32, 24) if upright.shape == (64, 48) else (24, 32))


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_the_first_of_several_frames_is_used(tmp_path, suffix):
    frames = [Image.fromarray(grainy(3.0, seed)) for seed in range(3)]
    options = {"webp": {"lossless": True}}.get(suffix, {})
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:], **options)
    found = decoded(tmp_path / f"a.{suffix}")
    np.testing.assert_allclose(found.grey, GREY, atol=1)
    assert found.remarks == ("shown by its first frame",)


def test_damaged_exif_does_not_matter(tmp_path):
    path = save(tmp_path / "a.jpg", GREY, exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decoded(path).grey.shape == GREY.shape


# Sizes


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_large_images_are_scaled_down(tmp_path, suffix):
    big = np.kron(grainy(3.0, 0, (60, 90)), np.ones((10, 10), np.uint8))
    path = save(tmp_path / f"a.{suffix}", big)
    small = decoded(path, max_size=90)
    assert small.grey.shape == (60, 90)
    assert np.abs(small.grey - grainy(3.0, 0, (60, 90))).mean() < 6
    assert small.remarks == ("scaled down to --max-size",)
    assert decoded(path, max_size=0).grey.shape == (600, 900)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "1", "I;16", "F", "CMYK"])
def test_large_images_of_any_kind_are_scaled_down(tmp_path, mode):
    big = np.kron(grainy(3.0, 0, (60, 90)), np.ones((10, 10), np.uint8))
    if mode == "I;16":
        image = Image.fromarray(big.astype(np.uint16) * 257)
    else:
        image = Image.fromarray(big).convert("RGB" if mode in ("CMYK", "RGBA") else "L").convert(mode)
    image.save(tmp_path / "a.tif")
    small = decoded(tmp_path / "a.tif", max_size=90).grey
    assert small.shape == (60, 90)
    assert np.abs(small - grainy(3.0, 0, (60, 90))).mean() < (20 if mode == "1" else 6)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_thin_image_keeps_a_pixel(tmp_path, suffix):
    path = save(tmp_path / f"a.{suffix}", np.zeros((1, 3000), np.uint8))
    assert decoded(path).grey.shape == (1, 500)


def bomb(width, height):
    """A PNG with a huge number of pixels in a few kilobytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    line = b"\0" * (width // 8 + 2)
    data = b"".join(packer.compress(line) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(30_000, 30_000))
    assert path.stat().st_size < 500_000
    monkeypatch.setattr(Image.Image, "draft", None)  # what decoding would call
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", None)
    assert refused(path, max_pixels=100_000_000) == "30000 x 30000 pixels are more than --max-pixels 100000000"


# What is no image


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])  # JPEG 2000 may be shown in part
@pytest.mark.parametrize("part", [0.02, 0.5, 0.9])
def test_truncated_files(tmp_path, suffix, part):
    path = save(tmp_path / f"a.{suffix}", np.dstack([grainy(1.0, i) for i in range(3)]))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    assert refused(path)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.7])
def test_damaged_png(tmp_path, part):
    """Which Pillow says only once, and may be asked before."""
    path = save(tmp_path / "a.png", grainy(0.5, 0, (300, 300)))
    content = bytearray(path.read_bytes())
    place = int(len(content) * part)
    content[place : place + 40] = bytes(byte ^ 255 for byte in content[place : place + 40])
    path.write_bytes(content)
    assert "data stream" in refused(path)


def test_files_that_are_not_images(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"")
    assert refused(path) == "empty file"
    path.write_text("This is not an image.\n" * 100)
    assert refused(path) == "not an image, or damaged at its beginning"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")  # would start Ghostscript
    assert "not an image" in refused(path)


def test_files_that_cannot_be_read(tmp_path):
    assert "no such file" in refused(tmp_path / "none.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    assert refused(tmp_path / "pipe.jpg") == "not a regular file"
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    assert "too many levels of symbolic links" in refused(tmp_path / "loop.jpg")
    assert "null" in refused("a\0b.jpg")


def as_another_user(action):
    """Root may read anything."""
    if os.geteuid() != 0:
        return action()
    os.seteuid(65534)
    try:
        return action()
    finally:
        os.seteuid(0)


def test_files_without_permission_to_read(tmp_path):
    path = save(tmp_path / "a.png", GREY)
    path.chmod(0)
    assert "permission denied" in as_another_user(lambda: refused(path))


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_never_raise_anything_else(tmp_path, seed):
    rng = np.random.default_rng(seed)
    suffix, options = [("jpg", {}), ("png", {}), ("gif", {}), ("tif", {}), ("webp", {}), ("jp2", {})][seed % 6]
    path = save(tmp_path / f"a.{suffix}", np.dstack([GREY] * 3), **options)
    content = bytearray(path.read_bytes())
    for place in rng.integers(0, len(content), 20):
        content[place] = rng.integers(256)
    path.write_bytes(content)
    with contextlib.suppress(UnusableImage):
        assert decoded(path).grey.ndim == 2


def test_a_decoder_that_runs_out_of_memory(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", GREY)

    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", exhaust)
    assert refused(path) == "needs more memory than there is"


# Folders


def test_folders_are_categories(tmp_path):
    make_folder(tmp_path, each=2)
    save(tmp_path / "fine" / "deep" / "er" / "a.PNG", GREY)
    found = images_in_folder(str(tmp_path))
    assert [(image.name, image.label) for image in found.images] == [
        ("coarse/0.png", "coarse"),
        ("coarse/1.png", "coarse"),
        ("fine/0.png", "fine"),
        ("fine/1.png", "fine"),
        ("fine/deep/er/a.PNG", "fine"),
    ]
    assert {image.label for image in images_in_folder(str(tmp_path), labelled=False).images} == {None}


def test_a_flat_folder_has_no_labels(tmp_path):
    save(tmp_path / "b.png", GREY)
    save(tmp_path / "a.png", GREY)
    assert [(p.name, p.label) for p in images_in_folder(str(tmp_path)).images] == [("a.png", None), ("b.png", None)]


def test_images_beside_categories_are_refused(tmp_path):
    make_folder(tmp_path)
    save(tmp_path / "a.png", GREY)
    with pytest.raises(DataError, match=r"1 image beside folders with 8, first a\.png; move .* or give --no-labels"):
        images_in_folder(str(tmp_path))
    assert len(images_in_folder(str(tmp_path), labelled=False).images) == 9


def test_other_files_hidden_ones_and_empty_categories(tmp_path):
    make_folder(tmp_path, each=1)
    (tmp_path / "empty").mkdir()
    (tmp_path / ".hidden").mkdir()
    save(tmp_path / ".hidden" / "a.png", GREY)
    (tmp_path / "fine" / "._0.png").write_text("what macOS leaves")
    (tmp_path / "fine" / "notes.txt").write_text("nothing")
    found = images_in_folder(str(tmp_path))
    assert len(found.images) == 2
    assert found.empty == ["empty"]
    assert found.ignored == ["fine/notes.txt"]


def test_links_that_lead_in_a_circle_are_named(tmp_path):
    make_folder(tmp_path, each=1)
    (tmp_path / "fine" / "back").symlink_to(tmp_path)
    (tmp_path / "fine" / "self").symlink_to(tmp_path / "fine" / "self")
    found = images_in_folder(str(tmp_path))
    assert [image.name for image in found.images] == ["coarse/0.png", "fine/0.png"]
    assert [(one.name, one.reason) for one in found.skipped] == [
        ("fine/back", "a link to the folder that it lies in"),
    ]


def test_no_folder_is_read_twice(tmp_path):
    """Folders with two links each to the next would otherwise make millions of paths out of thirty."""
    save(tmp_path / "0" / "a.png", GREY)
    for i in range(1, 30):
        (tmp_path / str(i)).mkdir()
        for link in "xy":
            (tmp_path / str(i) / link).symlink_to(tmp_path / str(i - 1))
    found = images_in_folder(str(tmp_path))
    assert [image.name for image in found.images] == ["0/a.png"]
    assert "the same folder as 0" in {one.reason for one in found.skipped}


def test_folders_within_folders_without_end(tmp_path):
    make_folder(tmp_path, each=1)
    deep = tmp_path / "fine"
    for _ in range(150):
        deep /= "d"
        deep.mkdir()
    save(deep / "a.png", GREY)
    found = images_in_folder(str(tmp_path))
    assert len(found.images) == 2
    assert [one.reason for one in found.skipped] == ["more than 100 folders deep"]


def test_folders_whose_files_cannot_be_looked_at(tmp_path, monkeypatch):
    make_folder(tmp_path, each=1)
    is_dir = Path.is_dir

    def forbidden(path):
        if path.parent.name == "fine":
            raise PermissionError(13, "Permission denied")
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", forbidden)
    found = images_in_folder(str(tmp_path))
    assert [image.name for image in found.images] == ["coarse/0.png"]
    assert [(one.name, one.reason) for one in found.skipped] == [("fine", "cannot be read: permission denied")]
    with pytest.raises(DataError, match="no image can be reached"):
        images_in_folder(str(tmp_path / "fine"))


def test_a_linked_category_is_followed(tmp_path):
    elsewhere = make_folder(tmp_path / "elsewhere", each=1)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "linked").symlink_to(elsewhere / "fine")
    assert [p.name for p in images_in_folder(str(tmp_path / "here")).images] == ["linked/0.png"]


def test_folders_without_images(tmp_path):
    with pytest.raises(DataError, match=r"no image in it; mccgr reads \.jpg"):
        images_in_folder(str(tmp_path))
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match="1 file, none an image by its name"):
        images_in_folder(str(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        images_in_folder(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["with space", "new\nline", "ünïcödé", "日本", "quo'te\"s", "-dash", "<script>"])
def test_odd_names(tmp_path, name):
    make_folder(tmp_path, each=1)
    save(tmp_path / name / f"{name}.png", GREY)
    names = [image.name for image in images_in_folder(str(tmp_path)).images]
    assert f"{name}/{name}.png" in names


def test_names_that_are_not_utf_8(tmp_path):
    save(tmp_path / os.fsdecode(b"b\xe4d") / os.fsdecode(b"\xff.png"), GREY)
    (image,) = images_in_folder(str(tmp_path)).images
    assert image.name == "b\\xe4d/\\xff.png"
    assert decoded(image.path).grey.shape == GREY.shape


# Lists


def test_a_list_keeps_its_order_and_takes_folders_for_labels():
    found = images_on_list(b"\xef\xbb\xbfb/2.jpg\na/1.jpg\r\n\nb/0.jpg\n")  # with what Windows puts before a text
    assert [(p.path, p.label) for p in found.images] == [("b/2.jpg", "b"), ("a/1.jpg", "a"), ("b/0.jpg", "b")]
    assert {p.label for p in images_on_list(b"b/2.jpg\na/1.jpg", labelled=False).images} == {None}
    assert {p.label for p in images_on_list(b"b/2.jpg\nb/1.jpg").images} == {None}


def test_a_list_has_the_labels_that_its_folder_would_have(tmp_path):
    make_folder(tmp_path, each=2)
    save(tmp_path / "fine" / "deep" / "0.png", GREY)
    save(tmp_path / "coarse" / "deep" / "0.png", GREY)
    found = images_in_folder(str(tmp_path))
    content = "\n".join(image.path for image in found.images).encode()
    assert [p.label for p in images_on_list(content).images] == [p.label for p in found.images]
    with pytest.raises(DataError, match=r"1 image beside folders with 6, first .*a\.png; move"):
        images_on_list(content + f"\n{tmp_path}/a.png".encode())


def test_a_list_between_zero_bytes_may_hold_any_name():
    found = images_on_list(b"a/new\nline.jpg\0a/b .jpg\0")
    assert [image.path for image in found.images] == ["a/new\nline.jpg", "a/b .jpg"]


def test_an_empty_list():
    with pytest.raises(DataError, match="names no images"):
        images_on_list(b"\n \n")


def test_any_bytes_as_a_list():
    assert images_on_list(io.BytesIO(b"\xff\xfe/\x80.jpg").read()).images[0].name == "\\xff\\xfe/\\x80.jpg"
