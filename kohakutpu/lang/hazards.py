"""What a kernel may do but probably should not: numbers that a format does not hold."""


class NumericHazard(UserWarning):
    """A computation that is likely to leave the range of the format it is stored in."""
