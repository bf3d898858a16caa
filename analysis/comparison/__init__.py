"""Two sets of rows compared point by point; see `analysis.commands.compare`."""
