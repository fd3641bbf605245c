"""A matrix X that is visited one block of rows at a time, in memory, in a file or elsewhere.

Begin with ``protocol``: the methods of a block source. ``in_memory`` and ``from_file`` are two sources;
``rows`` normalizes rows, ``products`` and ``kernels`` multiply blocks fast.
May import: ``system``, ``settings``, ``fields`` and ``errors``.
"""
