# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/remote/serve.py

# What is kept on disk.
TESTS += tests/remote/test_cache.py
EXTRA_DIST += tests/remote/test_cache.py
