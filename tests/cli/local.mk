# SPDX-License-Identifier: Apache-2.0
TESTS += tests/cli/export.sh
EXTRA_DIST += tests/cli/export.sh
