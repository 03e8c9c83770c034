# SPDX-License-Identifier: Apache-2.0
# Not part of `make check`, which needs Debian's packages only: scripts/test-frameworks runs these.
EXTRA_DIST += \
	tests/frameworks/anything.py \
	tests/frameworks/casts.py \
	tests/frameworks/constraints.txt \
	tests/frameworks/consume.py \
	tests/frameworks/damaged.py \
	tests/frameworks/make_deepspeed.py \
	tests/frameworks/make_fairscale.py \
	tests/frameworks/make_hf.py \
	tests/frameworks/make_megatron.py \
	tests/frameworks/make_olmo.py \
	tests/frameworks/make_peft.py \
	tests/frameworks/make_torch.py \
	tests/frameworks/make_torchao.py \
	tests/frameworks/models.py \
	tests/frameworks/mount.py \
	tests/frameworks/stores.py \
	tests/frameworks/suite.py \
	tests/frameworks/truth.py \
	$(NULL)
