"""Sweeps on a Slurm cluster: a Slurm job measures one shard, as an ordinary sweep of its own.

A shard's sweep lies in ``out/shards/<id>/`` and the state of its job in ``out/slurm/shards/<id>/``;
the job alone writes to both. The submitting side writes all else: ``out/slurm/submitted.json``,
which names the job that each shard belongs to now, and submitit's files in ``out/slurm/log/``.
Neither locks nor appends from two nodes are relied on, for a shared file system may know neither.
"""
