"""Tables in and out, and the time grid."""
