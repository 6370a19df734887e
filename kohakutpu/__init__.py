"""A matrix accelerator you can run: its language, compiler, golden model and devices.

Import what you use: `kohakutpu.api` for tensors, `kohakutpu.lang` to write kernels,
`kohakutpu.kernels` for the ones already written. This package itself imports nothing.
"""
