"""The product of attention's probabilities and values, by itself: where its time goes."""
