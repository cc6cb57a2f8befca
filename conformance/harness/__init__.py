"""The function under judgement: how it is called, fed, compared and reported."""
