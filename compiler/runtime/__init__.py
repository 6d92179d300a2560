"""Memory plan, thread team, Module and artifact."""
