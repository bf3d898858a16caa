"""Adding two matrices: the roof of operations that read two and write one."""
