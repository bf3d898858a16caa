"""The parent's side of a sweep: jobs, plan, workers and cards, rows, summary.

``from experiments import sweep`` gives this package once it is imported; it is called as
`api.sweep`.
"""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    def __call__(self, *overrides: str, **options: Any) -> Any:
        from experiments.api import sweep

        return sweep(*overrides, **options)


sys.modules[__name__].__class__ = _Package
