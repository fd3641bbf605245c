"""Files that mccgr reads and writes.

Begin with ``container`` (what a file of mccgr holds) and ``readers.load``, which reads it and other formats.
``lazy_matrix`` leaves X in its file until it is needed; ``hdf5`` and ``values`` check what files hold. ``atomic_write``
writes a file completely or not at all; ``journal``, ``run_manifest`` and ``provenance`` record what was done.
May import: ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``.
"""
