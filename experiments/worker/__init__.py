"""The child's side of the wall: everything that needs torch, Triton and the card."""
