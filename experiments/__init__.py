"""How kernels are measured: compose, check, order, measure in a worker, record, mirror."""
