"""The packages of the wheel: every folder of kernels/, below another name; see pyproject.toml."""

from setuptools import find_packages, setup

NAME = "softmax_roofline"
setup(packages=[NAME, *(f"{NAME}.{folder}" for folder in find_packages("kernels"))])
