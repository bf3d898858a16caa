"""The noise floor: what differs where nothing differs; see `analysis.commands.selftest`."""
