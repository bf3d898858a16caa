"""The subcommands, a module each: ``run(options)`` reads, writes, prints and returns a status."""
