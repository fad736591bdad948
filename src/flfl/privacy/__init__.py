"""What keeps one owner's numbers from the others: sums that hide their terms."""
