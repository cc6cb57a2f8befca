"""What is known of arguments that nobody gives: configurations, and the defaults of a model."""
