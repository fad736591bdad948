"""What an owner does at home: candidates with and without the network, and their combination."""
