"""Say how to use an identified function as another encoding."""
