"""Colours and markers of clusters, classes and lines: one table for figures and the page.

A number, the look, decides on both. 20 colours and 9 markers: the first 180 looks differ. The colours of each list were
chosen for the largest CIEDE2000 difference of its two most similar colours (about 21 in both), with a contrast of 3 or
more to the ground. The first three are Okabe and Ito's. The first eight differ for most colour-blind readers too;
beyond these, markers help.
"""

from __future__ import annotations

COLOURS = (  # on a light ground
    *("#0072b2", "#d55e00", "#009e73", "#be0046", "#937ffb", "#00a0b4", "#0a6400", "#ff5a64", "#8c6e82", "#50283c"),
    *("#15191d", "#005a5a", "#a00aa0", "#8c8c82", "#0032aa", "#fa46be", "#78a000", "#5a4600", "#6e1e00", "#aa8200"),
)
DARK_COLOURS = (  # on a dark ground, with the same hues as far as possible
    *("#4aa3df", "#f0803c", "#2fbf95", "#ffbdbd", "#ff75ff", "#3feafc", "#cfffab", "#d81b1b", "#997e99", "#c612ab"),
    *("#f2f4f5", "#487575", "#6c63f3", "#a29987", "#bdbdfc", "#fc517e", "#1b7e24", "#90ab00", "#906c00", "#fcbd09"),
)
MARKERS = {  # matplotlib's sign, and the outline within 12 x 12 that the page draws
    "o": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z",
    "s": "M2 2h8v8h-8z",
    "^": "M6 1.2l5 9h-10z",
    "D": "M6 .6l5.4 5.4l-5.4 5.4l-5.4-5.4z",
    "v": "M6 10.8l5-9h-10z",
    "P": "M4.2 1h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
    "X": "M3.2.8l2.8 2.8l2.8-2.8l2.4 2.4l-2.8 2.8l2.8 2.8l-2.4 2.4l-2.8-2.8l-2.8 2.8l-2.4-2.4l2.8-2.8l-2.8-2.8z",
    "<": "M1.2 6l9-5v10z",
    ">": "M10.8 6l-9-5v10z",
}
