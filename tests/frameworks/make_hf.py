# SPDX-License-Identifier: Apache-2.0
"""make_hf.py OUT: what transformers and accelerate write: save_pretrained, the Trainer's checkpoints, save_state."""
import os
import sys

import torch
import transformers
from torch.utils.data import Dataset

import consume
import models
import truth

IDS = torch.arange(24).view(2, 12) * 7 % 61


def gpt2():
    """Tied, with buffers and transposed weights."""
    torch.manual_seed(8)
    config = transformers.GPT2Config(vocab_size=61, n_positions=32, n_embd=24, n_layer=3, n_head=3,
                                     resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return transformers.GPT2LMHeadModel(config)


def llama(dtype):
    """Not tied, grouped heads."""
    torch.manual_seed(9)
    config = transformers.LlamaConfig(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config)
    for p in model.parameters():
        # Not model.to(): that narrows the rotary frequencies too, which no loader does.
        p.data = p.data.to(dtype)
    return model


def answers(model):
    """What transformers must make of the mount."""
    head = model.lm_head.weight.detach().clone()
    return {"ids": IDS, "logits": consume.answer(model, IDS), "head": head, "dtype": model.dtype}


def weights(model):
    """The state dict as transformers saves it: a tied tensor under its first name alone."""
    state, first, out = model.state_dict(), set(), {}
    for name, t in state.items():
        if t.data_ptr() not in first:
            out[name] = t
        first.add(t.data_ptr())
    return out


def sharded(out, case):
    """save_pretrained into many shards, in bf16."""
    path = truth.folder(out, case)
    model = llama(torch.bfloat16)
    model.save_pretrained(path, max_shard_size="12KB")
    truth.write(out, case, {"": weights(model)}, hub=answers(model))


def tied(out, case):
    """save_pretrained of a tied model, one file."""
    path = truth.folder(out, case)
    model = gpt2()
    model.save_pretrained(path)
    truth.write(out, case, {"": weights(model)}, hub=answers(model))


class Text(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = (torch.arange(16) * (i + 3) + i) % 61
        return {"input_ids": ids, "labels": ids}


def trainer(out, case):
    """Trainer: a run directory of two checkpoints, of which the later one is shown."""
    path = truth.folder(out, case)
    model = gpt2()
    args = transformers.TrainingArguments(output_dir=path, max_steps=4, save_steps=2, per_device_train_batch_size=4,
                                          use_cpu=True, report_to=[], disable_tqdm=True, learning_rate=1e-2,
                                          dataloader_num_workers=0, save_strategy="steps")
    run = transformers.Trainer(model=model, args=args, train_dataset=Text())
    run.train()
    truth.write(out, case, {"": weights(model), **truth.numbered(run.optimizer)}, hub=answers(model))


def save_state(out, case):
    """accelerate's save_state."""
    import accelerate  # pylint: disable=import-outside-toplevel
    path = truth.folder(out, case)
    accelerator = accelerate.Accelerator(cpu=True)
    torch.manual_seed(10)
    model = models.Gpt(layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    models.train(model, optimizer)
    accelerator.save_state(path)
    sets = {"": weights(accelerator.unwrap_model(model)), **truth.numbered(optimizer)}
    truth.write(out, case, sets)


CASES = [("hf-llama-bf16-sharded", sharded), ("hf-gpt2-tied", tied), ("hf-trainer-gpt2", trainer),
         ("accelerate-save-state", save_state)]


def main():
    truth.watchdog()
    torch.set_num_threads(1)
    good = True
    for case, make in CASES:
        try:
            make(sys.argv[1], case)
        except Exception:  # pylint: disable=broad-except
            truth.failed(sys.argv[1], case)
            good = False
    sys.exit(not good)


if __name__ == "__main__":
    main()
