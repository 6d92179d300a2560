"""The LoopNest, its printer, verifier and interpreter."""
