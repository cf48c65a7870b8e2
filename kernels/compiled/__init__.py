"""Triton kernels as native code on the host: Triton's own IR, translated to LLVM, with every access checked.

`launch` takes a launch of an unmodified `@triton.jit` function, `frontend` reads the IR that Triton makes of it,
`function` (with `values`, `arithmetic`, `memory`) translates that to LLVM, and `native` makes machine code of it,
kept by `cache`. `errors` says what a launch can raise.
"""
