"""Processes that run foreign code: started apart, limited, and ended with all that they started."""
