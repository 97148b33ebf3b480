"""The demonstration: real daemons, what is done to them, and what their traces prove."""
