"""Judge plain functions, such as position ids, against the specification's own."""
