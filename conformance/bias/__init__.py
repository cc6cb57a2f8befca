"""Judge and diagnose attention biases, slopes and buckets."""
