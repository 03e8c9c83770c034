# SPDX-License-Identifier: Apache-2.0
"""make_peft.py OUT: adapters of PEFT that DeepSpeed trains, saved as its checkpoint and, beside it, by PEFT itself.

In float32, so that PEFT's own file has exactly what the optimizer holds."""
import sys

import deepspeed
import peft
import torch
import transformers

import truth

TARGETS = {"target_modules": ["q_proj", "v_proj"]}
# What PEFT saves of the last ones is computed.
METHODS = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules=["q_proj", "embed_tokens"], use_dora=True, modules_to_save=["lm_head"]),
    "bias": lambda: peft.LoraConfig(r=2, bias="all", **TARGETS),
    "tokens": lambda: peft.LoraConfig(r=2, trainable_token_indices=[1, 2], **TARGETS),
    "adalora": lambda: peft.AdaLoraConfig(init_r=3, target_r=2, total_step=100, **TARGETS),
    "loha": lambda: peft.LoHaConfig(r=2, **TARGETS),
    "ia3": lambda: peft.IA3Config(feedforward_modules=[], **TARGETS),
    "oft": lambda: peft.OFTConfig(r=0, oft_block_size=4, **TARGETS),
    "vera": lambda: peft.VeraConfig(r=2, **TARGETS),
    "vblora": lambda: peft.VBLoRAConfig(r=2, num_vectors=8, vector_length=4, **TARGETS),
    "ln": lambda: peft.LNTuningConfig(target_modules=["input_layernorm", "norm"]),
    "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "ptuning": lambda: peft.PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=8, task_type="CAUSAL_LM"),
    "shira": lambda: peft.ShiraConfig(r=2, **TARGETS),
}
COMPUTED = {"ptuning", "shira"}
SETTINGS = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "attention_bias": True}


def base():
    torch.manual_seed(5)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SETTINGS))


def one(rank, out, case, method):
    path = truth.folder(out, case) if rank == 0 else f"{out}/{case}/ckpt"
    torch.manual_seed(6)
    model = peft.get_peft_model(base(), METHODS[method]())
    settings = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, "steps_per_print": 10**9,
                "zero_force_ds_cpu_optimizer": False, "zero_optimization": {"stage": 2}}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-2)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    generator = torch.Generator().manual_seed(7 + rank)
    for _ in range(2):
        ids = torch.randint(0, 32, (2, 8), generator=generator)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
    engine.save_checkpoint(path)
    if rank == 0:
        model.save_pretrained(path)
        ids = torch.arange(8).view(1, 8)
        model.eval()
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        truth.write(out, case, {"": {"ids": ids}}, adapter={
            "base": truth.own(base().state_dict()), "settings": SETTINGS, "ids": ids, "logits": logits,
            "computed": method in COMPUTED})
    engine.destroy()


def work(rank, _, out):
    torch.set_num_threads(1)
    for op in deepspeed.ops.__compatible_ops__:
        deepspeed.ops.__compatible_ops__[op] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    for method in METHODS:
        case = f"peft-{peft.__version__}-{method}"
        try:
            one(rank, out, case, method)
        except Exception:  # pylint: disable=broad-except
            if rank == 0:
                truth.failed(out, case)
            raise


def main():
    truth.watchdog()
    sys.exit(not truth.ranks(2, work, sys.argv[1]))


if __name__ == "__main__":
    main()
