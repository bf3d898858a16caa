"""A card's file holds sourced figures, and fits the driver's name for that card alone."""

from __future__ import annotations

import re

import pytest

from tests.conf import options
from tests.conftest import Composed

CARDS = [name for name in options("gpu") if name not in ("auto", "cpu")]

NAMES = {  # as drivers report them
    "NVIDIA H200": "h200",
    "NVIDIA H200 NVL": None,
    "NVIDIA H100 80GB HBM3": "h100_sxm",
    "NVIDIA H100 PCIe": "h100_pcie",
    "NVIDIA H100 NVL": None,
    "NVIDIA L40S": "l40s",
    "NVIDIA L40": None,
    "NVIDIA B200": "b200",
    "NVIDIA GB200": None,
    "NVIDIA GeForce RTX 5090": "rtx_5090",
    "NVIDIA GeForce RTX 5090 D": None,
    "A100-SXM4-80GB": "a100_80gb",
    "NVIDIA A100 80GB PCIe": None,
    "NVIDIA GeForce RTX 4090": "rtx_4090",
    "NVIDIA GeForce RTX 4090 D": None,
    "NVIDIA GeForce RTX 3090 Ti": "rtx_3090_ti",
    "NVIDIA GeForce RTX 3090": None,
}

UNITS = ("_gbps", "_gb", "_mib", "_tflops", "_mhz", "_w", "_kib_per_sm", "_per_sm_clock", "sms")


@pytest.mark.parametrize("card", CARDS)
def test_every_fact_has_a_value_a_unit_and_a_source(card: str, composed: Composed) -> None:
    facts = composed(f"gpu={card}").gpu.facts
    assert {"memory_gbps", "memory_gb", "l2_mib", "sms"} <= set(facts)
    for name, fact in facts.items():
        assert fact.value > 0
        assert len(fact.source) > 10
        assert name.endswith(UNITS)


def test_name_fits_its_own_card_and_no_namesake(composed: Composed) -> None:
    matches = {card: composed(f"gpu={card}").gpu.match for card in CARDS}
    for reported, card in NAMES.items():
        fitting = [name for name, match in matches.items() if re.search(match, reported)]
        assert fitting == ([card] if card else [])
