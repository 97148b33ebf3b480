"""Process groups above any engine: directory, views, packing, fragments, state transfer."""
