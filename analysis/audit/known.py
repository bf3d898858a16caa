"""What the rules work from: the printed statements, the models, the cards and the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.audit.facts import Facts
from analysis.audit.formulas import limit
from analysis.formula import elements
from analysis.load import Declaration
from analysis.published import Level, Ratio, Series, Source
from experiments.data.cards import Card
from experiments.data.rows import RowsError

COPY = "copy"  # reads the input and writes the output: what any softmax must move


@dataclass(frozen=True)
class Known:
    """Sources by letter, declarations by variant, cards fastest first, facts."""

    sources: Mapping[str, Source]
    declarations: Mapping[str, Declaration]
    cards: tuple[Card, ...]
    facts: Facts

    def model(self, kernel: str) -> Declaration:
        """What a variant declared.

        Raises:
            RowsError: no declaration of it was recorded.
        """
        if kernel not in self.declarations:
            raise RowsError(f"no recorded declaration of {kernel}: the audit needs variants.json")
        return self.declarations[kernel]

    def modelled_bytes(self, kernel: str, rows: int, cols: int, dtype: str) -> int:
        """What a variant moves by its recorded declaration."""
        return elements(self.model(kernel).formula, rows, cols) * itemsize(dtype)

    def compulsory_bytes(self, rows: int, cols: int, dtype: str) -> int:
        """What any variant moves."""
        return self.modelled_bytes(COPY, rows, cols, dtype)

    def traffic_limit(self, larger: str, smaller: str) -> float:
        """What one variant's modelled traffic over another's tends to as N grows."""
        return limit(self.model(larger).formula, self.model(smaller).formula)

    def same_text(self, one: str, other: str) -> bool:
        """Whether two letters are one source, or a source and its sequel."""
        after = {letter: self.sources[letter].statements.continues for letter in (one, other)}
        return one == other or after[one] == other or after[other] == one

    def same_code(self, one: str, other: str) -> bool:
        """Whether two letters are one text or two accounts of the same code."""
        code = self.sources[one].statements.describes
        accounts = code is not None and code == self.sources[other].statements.describes
        return accounts or self.same_text(one, other)

    def drawn(self, letter: str, *kernels: str) -> Iterator[tuple[str, Series]]:
        """Times over N at a fixed M, in the text of ``letter``, that hold all ``kernels``."""
        for other, series in self.time_series():
            if self.same_text(letter, other) and set(kernels) <= set(series.kernels):
                yield other, series

    def time_series(self) -> Iterator[tuple[str, Series]]:
        """Every series of times over N at a fixed M, with its source's letter."""
        for letter, source in self.sources.items():
            for series in source.series.values():
                if series.quantity == "time_us" and series.over == "cols" and series.rows:
                    yield letter, series

    def ratios(self) -> Iterator[tuple[str, Ratio, str]]:
        """Every stated ratio of times, with its letter and the slower kernel's plain name."""
        for letter, source in self.sources.items():
            for ratio in source.ratios:
                yield letter, ratio, source.statements.also.get(ratio.over, ratio.over)

    def levels(self, of: str) -> Iterator[tuple[str, Level]]:
        """Every stated bandwidth of a kind, with its letter."""
        for letter, source in self.sources.items():
            for level in source.levels:
                if level.of == of and level.quantity == "effective_gbps":
                    yield letter, level


def itemsize(dtype: str) -> int:
    """Bytes an element."""
    return np.dtype(dtype).itemsize
