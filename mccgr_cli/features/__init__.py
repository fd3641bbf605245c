"""From pictures to a matrix: find and decode them, describe their patches, and count visual words.

:mod:`mccgr_cli.features.pictures` finds and decodes, :mod:`mccgr_cli.features.sift` describes,
:mod:`mccgr_cli.features.codebook` learns and assigns words, and :mod:`mccgr_cli.features.extraction` takes all
pictures through these in two readings.
"""
