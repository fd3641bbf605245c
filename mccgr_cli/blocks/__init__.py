"""A matrix X that is visited one block of rows at a time, wherever it is stored.

Begin with ``protocol``: what a source of blocks offers. ``in_memory`` and ``from_file`` are two sources;
``rows`` normalizes rows, ``products`` and ``kernels`` multiply blocks fast.
May import: ``system``, ``settings`` and ``errors``.
"""
