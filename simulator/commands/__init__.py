"""One module per subcommand: `configure(parser)` declares its options, `execute(args)` returns the exit code."""
