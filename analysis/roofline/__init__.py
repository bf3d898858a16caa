"""What the roofline explains: the three pictures, the check of each time, occupancy."""
