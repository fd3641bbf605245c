"""Files that mccgr reads and writes.

Begin with ``container``: what an HDF5 file of mccgr holds. ``readers`` load it and other formats, ``lazy_matrix``
leaves a large matrix in its file, ``atomic_write`` writes a file completely or not at all; ``journal``,
``run_manifest`` and ``provenance`` record what was done.
May import: ``blocks``, ``system``, ``settings`` and ``errors``.
"""
