"""What an owner does at home: candidates with and without the network, and how they are combined."""
