# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	docs/HACKING.md \
	docs/architecture.md \
	docs/formats \
	docs/performance.md \
	docs/remote.md \
	docs/tour.md \
	$(NULL)
