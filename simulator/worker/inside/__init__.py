"""What runs in the engine's environment: it may import msgspec, NumPy, torch, the engine, and this project's files."""
