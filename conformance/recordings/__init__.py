"""Judge recorded tensors: q and k before and after a rotation, without the function itself."""
