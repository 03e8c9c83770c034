# SPDX-License-Identifier: Apache-2.0
TESTS += \
	tests/house/house.sh \
	tests/house/install.sh
EXTRA_DIST += \
	tests/house/house.sh \
	tests/house/install.sh
