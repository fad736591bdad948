"""The heads: what a sensor and a site know alone, and how their estimates are mixed."""
