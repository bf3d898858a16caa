"""``python -m experiments.bench FILE.py::FUNCTION [operation=NAME] [overrides]``: `api.main`."""

import sys

from experiments import interrupts_on_one_line

if __name__ == "__main__":
    interrupts_on_one_line()  # while all else is imported

from experiments.api import main

if __name__ == "__main__":
    sys.exit(main())
