"""From images to a matrix: find and decode images, describe their patches, count visual words.

Begin with ``extract``, which takes all images through these steps. Each step has its module: ``find``, ``decode``,
``sift``, ``codebook``. ``grid`` adapts the patches to small images; ``thumbnails`` makes small copies for the report.
May import: ``core``, ``files``, ``blocks``, ``system``, ``settings``, ``fields`` and ``errors``.
"""
