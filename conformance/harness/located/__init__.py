"""Find the smallest rule that says where a function is wrong."""
