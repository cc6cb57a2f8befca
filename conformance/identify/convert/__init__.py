"""Convert an identified function to another encoding."""
