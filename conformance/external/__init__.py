"""Judge a program in any language over a pipe."""
