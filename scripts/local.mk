# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	.ci/run \
	scripts/bootstrap \
	scripts/check-drawing \
	scripts/check-formats \
	scripts/check-headers \
	scripts/check-layers \
	scripts/check-layout \
	scripts/check-length \
	scripts/check-mentions \
	scripts/check-names \
	scripts/check-symbols \
	scripts/knots.allow \
	scripts/layers.txt \
	scripts/length.allow \
	scripts/lib.sh \
	scripts/mentions.allow \
	scripts/mutants \
	scripts/mutants.equivalent \
	scripts/quickstart \
	scripts/test \
	scripts/test-arm64 \
	scripts/test-frameworks \
	scripts/test-libfuse \
	scripts/test-musl \
	scripts/test-sanitizers \
	$(NULL)
