"""Traffic by level: modelled, counted, measured, and the pictures of it."""
