"""One module per subcommand: `configure(parser)` declares its options, `execute(args)` runs it and returns the exit code."""
