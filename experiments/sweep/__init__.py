"""The parent's side of a sweep: jobs, plan, workers and cards, rows, summary.

Once this package is imported, ``from experiments import sweep`` gives the package, not the
function: so a call of the package calls `api.sweep`.
"""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    def __call__(self, *overrides: str, **options: Any) -> Any:
        from experiments.api import sweep

        return sweep(*overrides, **options)


sys.modules[__name__].__class__ = _Package
