"""Sweeps on a Slurm cluster: a Slurm job measures one shard, as an ordinary sweep of its own.

A shard's sweep lies in ``out/shards/<id>/`` and how its latest job ended in
``out/slurm/shards/<id>.json``; the job alone writes to both. The submitting side writes
``out/slurm/submitted.json``, the latest job of each shard, and submitit's files in
``out/slurm/log/``.
"""
