"""The pictures of rows: lines over a size, small multiples, limits, card to card."""
