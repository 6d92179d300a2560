"""Where candidates are built and measured: supervised child processes, a local runner, and one on a Ray cluster."""
