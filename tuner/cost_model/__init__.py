"""Features of the LoopNest, cycles that they predict, and trees that correct the prediction."""
