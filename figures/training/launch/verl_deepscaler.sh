#!/usr/bin/env bash
# F-GRPO in the paper's setting with verl 0.9.1 and sglang, on 2 nodes of 8 GPUs.
# Installing tailmiss registers focal_grpo; nothing else of verl changes.
# Data: DeepScaleR as verl's own parquet files, prompts of at most 1024 tokens.
set -euo pipefail

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=focal_grpo \
    +algorithm.focal_gamma=0.5 \
    algorithm.use_kl_in_reward=False \
    data.train_files="$DEEPSCALER/train.parquet" \
    data.val_files="$DEEPSCALER/test.parquet" \
    data.train_batch_size=256 \
    data.max_prompt_length=1024 \
    data.max_response_length=8192 \
    data.filter_overlong_prompts=True \
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B \
    actor_rollout_ref.actor.strategy=fsdp2 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_epochs=1 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=18432 \
    actor_rollout_ref.actor.clip_ratio=0.2 \
    actor_rollout_ref.actor.clip_ratio_low=0.2 \
    actor_rollout_ref.actor.clip_ratio_high=0.2 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.grad_clip=1.0 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.optim.lr_warmup_steps=15 \
    actor_rollout_ref.actor.optim.weight_decay=0.01 \
    actor_rollout_ref.rollout.name=sglang \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.top_p=1.0 \
    actor_rollout_ref.rollout.top_k=-1 \
    trainer.nnodes=2 \
    trainer.n_gpus_per_node=8 \
    trainer.total_epochs=10 \
    trainer.project_name=f-grpo \
    trainer.experiment_name=qwen2.5-7b-deepscaler \
    "$@"
