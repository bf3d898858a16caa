"""The sources' claims and our own, a function each, judged by rows and records."""

from __future__ import annotations

from types import ModuleType

from analysis.claims import a, b, c, d, e, own
from analysis.claims.measure import Card
from analysis.claims.verdict import Claim, Judgement
from analysis.load import Inputs

SOURCES = (a, b, c, d, e)


def claims_of(*modules: ModuleType) -> list[Claim]:
    """The claims of some modules, in their order."""
    return [one for module in modules for one in vars(module).values() if isinstance(one, Claim)]


def judge(inputs: Inputs, gpu: str) -> list[Judgement]:
    """Every claim of the sources by the rows of one GPU."""
    card = Card.of(inputs, gpu)
    return [claim.judge(card) for claim in claims_of(*SOURCES)]


def judge_own(inputs: Inputs, gpu: str) -> list[Judgement]:
    """Every claim of this project by the rows of one GPU."""
    card = Card.of(inputs, gpu)
    return [claim.judge(card) for claim in claims_of(own)]
