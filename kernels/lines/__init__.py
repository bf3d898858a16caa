"""Any dimension of any tensor, taken as lines of which a program holds a tile."""
