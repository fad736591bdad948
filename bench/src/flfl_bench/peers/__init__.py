"""What people use today, from other packages, behind the contract of a method."""
