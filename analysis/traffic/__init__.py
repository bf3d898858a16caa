"""Figures of what was counted, traced and measured."""

from analysis.traffic.comparison import COMPARISON
from analysis.traffic.diagrams import A_FIG1, B_FIG1
from analysis.traffic.dram_reads import DRAM_READS

EVIDENCE_FIGURES = (COMPARISON, DRAM_READS, A_FIG1, B_FIG1)
