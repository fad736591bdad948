"""Who carries the messages: same protocol, same bits."""
