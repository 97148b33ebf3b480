"""The pure cores: they compute and never act."""
