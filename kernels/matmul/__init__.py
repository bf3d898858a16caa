"""A matrix product: the roof of what multiplies matrices."""
