# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += \
	man/mount.zerofs.8 \
	man/zerofs-mount.1 \
	man/zerofs.1 \
	man/zerofs.5 \
	$(NULL)
