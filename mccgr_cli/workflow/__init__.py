"""What commands do between reading and writing, without any command line.

Begin with ``stages``: from the contents of one kind of file to the contents of the next. ``factorization`` chooses
the graph and factorizes, ``placement`` decides whether X is loaded, ``experiment`` and ``ranking`` run many
factorizations, ``checkpoints`` save a run, ``estimate`` predicts its time.
May import: ``images``, ``core``, ``distributed``, ``files`` and everything below them.
"""
