"""Running images: the device protocol, memory, launches, and keys for compile caches."""
