"""What sites and the coordinator say to each other, and the noisy copies that it is made of."""
