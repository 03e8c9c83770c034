# SPDX-License-Identifier: Apache-2.0
# One folder a format; what is in each is written with Python's standard library and compared with it.
TESTS += \
	tests/format/dcp/test_dcp.py \
	tests/format/dcp/test_evidence.py \
	tests/format/deepspeed/test_deepspeed.py \
	tests/format/deepspeed/test_evidence.py \
	tests/format/deepspeed/test_experts.py \
	tests/format/deepspeed/test_parallel.py \
	tests/format/deepspeed/test_same_state.py \
	tests/format/hf/test_hf.py \
	tests/format/olmo/test_olmo.py \
	tests/format/megatron/test_buckets.py \
	tests/format/megatron/test_golden.py \
	tests/format/megatron/test_runs.py \
	tests/format/megatron/test_megatron.py \
	tests/format/megatron/test_zarr.py \
	tests/format/megatron/test_legacy.py \
	tests/format/ranks/test_ranks.py \
	tests/format/safetensors/test_safetensors.py \
	tests/format/test_damage.py \
	tests/format/test_finding.py \
	tests/format/test_probing.py \
	tests/format/test_runs.py \
	tests/format/test_side.py \
	tests/format/test_sources.py \
	tests/format/test_special.py \
	tests/format/test_views.py \
	tests/format/torch/test_python2.py \
	tests/format/torch/test_torch.py \
	$(NULL)
EXTRA_DIST += \
	tests/format/dcp/test_dcp.py \
	tests/format/dcp/test_evidence.py \
	tests/format/deepspeed/test_deepspeed.py \
	tests/format/deepspeed/test_evidence.py \
	tests/format/deepspeed/test_experts.py \
	tests/format/deepspeed/test_parallel.py \
	tests/format/deepspeed/test_same_state.py \
	tests/format/deepspeed/makeds.py \
	tests/format/deepspeed/makemp.py \
	tests/format/golden.py \
	tests/format/hf/test_hf.py \
	tests/format/megatron/makelegacy.py \
	tests/format/megatron/test_buckets.py \
	tests/format/megatron/test_golden.py \
	tests/format/megatron/test_runs.py \
	tests/format/megatron/test_megatron.py \
	tests/format/megatron/test_zarr.py \
	tests/format/megatron/test_legacy.py \
	tests/format/made.py \
	tests/format/rundir.py \
	tests/format/olmo/makeolmo.py \
	tests/format/olmo/test_olmo.py \
	tests/format/ranks/test_ranks.py \
	tests/format/safetensors/test_safetensors.py \
	tests/format/test_damage.py \
	tests/format/test_finding.py \
	tests/format/test_probing.py \
	tests/format/test_runs.py \
	tests/format/test_side.py \
	tests/format/test_sources.py \
	tests/format/test_special.py \
	tests/format/test_views.py \
	tests/format/torch/test_python2.py \
	tests/format/torch/test_torch.py \
	tests/format/torchedit.py \
	$(NULL)
