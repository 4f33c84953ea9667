"""Beyond the core: one idea a file. ``extras.stack.assemble`` puts the chosen ones around `run_agent`."""
