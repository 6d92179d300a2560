"""Shared libraries: an Image as `model.so` and `model.h`, written without a linker."""
