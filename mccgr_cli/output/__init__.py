"""Results for people and for other programs.

``plots`` draws figures, ``report`` writes the HTML page, ``export`` writes the formats of other programs. Begin with
the ``__init__`` of each: its ``render`` returns the bytes of a file. ``organize`` puts images into folders.
May import: ``workflow`` and everything below it.
"""
