"""What is put to the question: kernels or a worker by name, what a file may name, and a worker beside our own ranks."""
