"""What everything else stands on: the shape of a cache, its memory, where arrays live, and how bytes carry identity."""
