"""Process groups in the simulator: clients, what they are told, and the promises about it."""
