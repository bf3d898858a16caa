"""Analysis and Weights & Biases: what it makes goes there, and rows come from there.

W&B itself lives in processes of its own, as it does for a sweep; see `experiments.mirror`.
"""

from analysis.tracking.address import is_address
from analysis.tracking.fetched import fetch
from analysis.tracking.logged import Judged, log

__all__ = ["Judged", "fetch", "is_address", "log"]
