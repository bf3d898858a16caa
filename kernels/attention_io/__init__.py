"""Three tensors in and one out: the roof of attention's memory."""
