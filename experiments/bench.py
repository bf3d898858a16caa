"""``python -m experiments.bench FILE.py::FUNCTION [operation=NAME] [overrides]``: `api.main`."""

import sys

from experiments.api import main

if __name__ == "__main__":
    sys.exit(main())
