"""What can be wrong with an HDF5 file whose bytes are all in order."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import h5py

from . import attributes, datasets, links
from .commands import Rng, one_of
from .mutations import mutate_bytes

OFTEN = (datasets.change_values, datasets.retype, datasets.reshape, links.remove, attributes.change_attribute)
# After these nothing more is done to a file: what was written to it might end up where it leads.
OUTSIDE = (links.link_outside, links.virtual, links.store_outside)
CHANGES: tuple[Callable[[Rng, h5py.File], None], ...] = (
    *(*OFTEN, *OFTEN, datasets.change_values, datasets.scale_values, datasets.shuffle_values),
    *(datasets.declare_huge, datasets.huge_chunks, datasets.damage_chunk, datasets.unknown_filter, datasets.empty),
    *(links.rename, links.add, links.become_group, links.become_type, links.link, links.cycle),
    *OUTSIDE,
    *(attributes.change_setting, attributes.remove_attribute, attributes.change_provenance),
)


def mutate_hdf5(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """One or two changes to what is in the file; to its bytes if it is none."""
    buffer = io.BytesIO(data)
    try:
        file = h5py.File(buffer, "r+")
    except OSError:  # a .mat file before version 7.3
        return mutate_bytes(rng, data, other)
    name = ""
    with file:
        for _ in range(int(rng.integers(1, 3))):
            change = one_of(rng, CHANGES)
            name = change.__name__
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError):
                change(rng, file)
            if change in OUTSIDE:
                break
    return buffer.getvalue(), f"hdf5: {name}"
