"""Colours, markers and typeface: the same for a variant everywhere, apart from all others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from analysis.figures.style import STYLES, style_of

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SIGHT = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
SRGB_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))


def lab(color: str, sight: np.ndarray) -> np.ndarray:
    srgb = np.array(to_rgb(color))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(sight @ linear, 0, 1)
    xyz = np.array(SRGB_TO_XYZ) @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", SIGHT)
def test_variants_stay_apart_under_every_kind_of_colour_blindness(kind: str) -> None:
    places = {name: lab(style.color, np.array(SIGHT[kind])) for name, style in STYLES.items()}
    for one, other in itertools.combinations(STYLES, 2):
        gap = np.linalg.norm(places[one] - places[other])
        assert gap > 10, (kind, one, other, gap)


@settings(max_examples=30, deadline=None)
@given(st.text())
def test_a_new_variant_always_has_the_same_style_and_none_of_ours(name: str) -> None:
    style = style_of(name)
    assert style == style_of(name)
    if name not in STYLES:
        assert all(style.color != ours.color for ours in STYLES.values())
        assert all(style.marker != ours.marker for ours in STYLES.values())
