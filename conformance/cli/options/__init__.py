"""The options that several commands share, and what is behind them."""
