"""The worker process: everything that needs torch, Triton and the card."""
