"""The roofline three ways: share of the roof, intensity, and predicted against measured time."""
