"""What the simulator knows of Transis: its invariants, its promises and its swarm."""
