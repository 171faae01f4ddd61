"""How trl_completions_*.parquet were made: two GRPO steps of TRL on a random tiny model.

python tests/data/rollouts/make_trl_log.py OUT
"""

import sys
import zlib

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

torch.manual_seed(0)
torch.set_num_threads(1)
letters = [*"abcdefgh0123456789+= ", "<pad>", "<eos>", "<unk>"]
inner = Tokenizer(models.WordLevel({c: i for i, c in enumerate(letters)}, unk_token="<unk>"))
inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
inner.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
config = Qwen2Config(
    vocab_size=len(letters), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, eos_token_id=22, pad_token_id=21,
)  # fmt: skip


def accuracy_reward(prompts, completions, **_):
    """None where the completion is empty: such a rollout is unscored."""
    pairs = zip(prompts, completions, strict=True)
    return [float(zlib.crc32((p + c).encode()) % 3 == 0) if c.strip() else None for p, c in pairs]


def length_reward(completions, **_):
    return [len(c) / 8 for c in completions]


trainer = GRPOTrainer(
    model=Qwen2ForCausalLM(config),
    reward_funcs=[accuracy_reward, length_reward],
    args=GRPOConfig(
        output_dir=sys.argv[1], per_device_train_batch_size=16, num_generations=4, max_steps=2,
        max_completion_length=3, logging_steps=1, log_completions=True, report_to=[],
        save_strategy="no", use_cpu=True, bf16=False, seed=0,
    ),
    train_dataset=Dataset.from_dict({"prompt": [f"{i}+{i}=" for i in range(4)]}),
    processing_class=tokenizer,
)  # fmt: skip
trainer.train()
