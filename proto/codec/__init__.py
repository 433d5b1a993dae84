"""Values to and from the messages of `penstock.v1`. Every message is checked before it becomes a value."""
