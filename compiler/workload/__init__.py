"""Partition into Subgraphs, the Workload and its digest."""
