"""The align kernels, the thing under test: each operator's NumPy reference beside its Triton kernel."""
