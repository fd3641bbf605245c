"""From images to a matrix: find and decode them, describe their patches, count visual words.

Begin with ``extract``: it takes all images through the steps. One module a step: ``find``, ``decode``, ``sift``,
``codebook``; ``grid`` chooses the patches for small images, ``thumbnails`` makes images for the report.
May import: ``core``, ``files``, ``blocks``, ``system``, ``settings`` and ``errors``.
"""
