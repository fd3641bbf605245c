"""From images to a matrix: find and decode images, describe them by visual words or by a network.

Begin with ``extract``, which takes all images through these steps. Each step has its module: ``find``, ``decode``,
``sift`` and ``codebook`` for words, ``network`` for networks. ``grid`` adapts the patches to small images; ``facts``
are about image files; ``thumbnails`` makes small copies for the report.
May import: ``core``, ``files``, ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``.
"""
