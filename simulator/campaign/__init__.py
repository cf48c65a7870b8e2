"""Many schedules: seeds over worker processes, failures shrunk, saved and compared."""
