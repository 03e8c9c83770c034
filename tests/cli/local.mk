# SPDX-License-Identifier: Apache-2.0
TESTS += \
	tests/cli/cli.sh \
	tests/cli/export.sh \
	tests/cli/test_terminal.py
EXTRA_DIST += \
	tests/cli/cli.sh \
	tests/cli/export.sh \
	tests/cli/look/cli.py \
	tests/cli/test_terminal.py
