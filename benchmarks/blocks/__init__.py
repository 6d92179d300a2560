"""Blocks of many kinds of networks as ONNX files, to be timed beside other engines."""
