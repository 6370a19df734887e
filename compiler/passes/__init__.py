"""The passes of the compiler, one a file, each named for its verb."""
