"""The deterministic simulator: the same cores on virtual time and a seeded network."""
