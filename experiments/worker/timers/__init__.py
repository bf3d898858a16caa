"""Three ways to time a call: CUDA events, replays of a CUDA graph, the host's clock.

Each takes one sample after another, in microseconds; when to stop is decided in one place,
`sampling.collect`.
"""
