"""Sweeps on a Slurm cluster: a Slurm job is a shard, and all of them share one folder.

Every file has one writer. A shard's job writes the rows of its own Hydra jobs and, below
``slurm/shards/<id>/``, ``plan.json`` and ``end.json``; the submitting side writes all else. Neither
locks nor appends from two nodes are relied on, for a shared file system may know neither.
"""
