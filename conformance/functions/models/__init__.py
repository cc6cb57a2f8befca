"""Plain functions of a model: table rows, layers, softmax scale, slopes of a rank."""
