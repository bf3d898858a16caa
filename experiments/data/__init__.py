"""Rows, records and what is computed of them: pydantic and JSON lines, without Hydra or torch."""
