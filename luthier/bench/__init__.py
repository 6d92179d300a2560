"""Timing Luthier beside other engines. The only place that imports them, and they compute nothing for anyone."""
