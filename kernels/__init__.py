"""What is measured: operations, and the kernel variants that carry them out."""
