"""Everything a rank launches besides the align kernels: tables, bookkeeping, blocks and the stand-in forward."""
