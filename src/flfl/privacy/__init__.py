"""What shelters a site's readings: secure sums, a local account of what was released, noise."""
