"""What commands print while they run and when they are done: lines, tables, and the pages of what they measured."""
