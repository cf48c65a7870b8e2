"""What is true of a schedule whatever its ranks do: token streams, and the plan of every step in requests' numbers."""
