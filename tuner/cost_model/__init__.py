"""Features of the LoopNest and the learned ranking."""
