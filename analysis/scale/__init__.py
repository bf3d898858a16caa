"""What many rows cost: rows generated from recorded ones, and the time and memory they take."""
