"""From texts to a matrix: find and read texts, count their words.

Begin with ``count``, which turns texts into rows. ``find`` finds texts in a folder, ``tables`` in a file with a text on
each line or row, and ``read`` decodes a file. ``settings`` has the options.
May import: ``files``, ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``.
"""
