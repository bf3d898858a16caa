"""Hydra's config loader for the jobs of a sweep: what jobs share is read and merged once."""

from __future__ import annotations

import copy
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig


class SweepLoader(ConfigLoaderImpl):
    """Composes as Hydra does, but merges the same defaults once, however many jobs have them.

    Overrides of values come after the defaults, and are applied to a copy for each job.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = KeptRepository(config_search_path)
        self._merged: dict[str, DictConfig] = {}

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        sources = [(source.provider, source.path) for source in repo.get_sources()]
        said = repr((sources, defaults))
        if said not in self._merged:
            self._merged[said] = super()._compose_config_from_defaults_list(defaults, repo)
        return copy.deepcopy(self._merged[said])


class KeptRepository(ConfigRepository):
    """Config files and schemas, each read when first asked for; who asks gets a copy."""

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Looks in these places from now on, and forgets what was read elsewhere."""
        super().initialize_sources(config_search_path)
        self._read: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """A file or schema with its header, None where there is none."""
        if config_path not in self._read:
            self._read[config_path] = super().load_config(config_path)
        return copy.deepcopy(self._read[config_path])

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptRepository:
        """Hydra copies its repository for each job, since a job may add places to look in."""
        return copy.copy(self)
