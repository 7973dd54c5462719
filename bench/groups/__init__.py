# SPDX-License-Identifier: Apache-2.0
"""Groups of rows. Each module has `run(measured, options)`, which adds its series."""
