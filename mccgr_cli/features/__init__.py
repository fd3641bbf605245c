"""From pictures to a matrix: find and decode them, describe their patches, and count visual words.

One module a step: ``pictures`` finds, ``decoding`` decodes, ``sift`` describes, ``codebook`` learns and counts words.
``extraction`` takes all pictures through these in two readings.
"""
