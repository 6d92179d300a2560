"""The search lab: pools of measured candidates, and what strategies and cost models make of them offline."""
