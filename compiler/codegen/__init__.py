"""LoopNest to LLVM IR to object code."""
