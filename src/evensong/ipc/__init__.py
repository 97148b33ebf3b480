"""What a client and its daemon say to each other; pure, and used by both."""
