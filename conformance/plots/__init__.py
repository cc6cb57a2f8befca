"""Pictures of encodings and of judged functions: the numbers, and matplotlib that draws them."""
