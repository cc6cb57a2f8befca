"""Wrong implementations for vectors whose surface or encoding no case of the corpus is about."""

ALSO_WRONG = []
