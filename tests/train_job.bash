# A small job for the tests of `twinpod train`, and how two of its runs are compared. Sourced behind check.bash.
# It names a cluster, so that no run spends its time on measuring the machine.
job=$scratch/job.yaml
cp -r docs "$scratch/text"  # who edits a document while the test runs changes nothing
cat >"$job" <<END
name: small
model:
  name: small
  layers: 4
  hidden: 64
  ffn: 128
  vocab: 257
  max_sequence: 32
  attention: {heads: 4, bias: true}
  mlp_bias: true
  positions: learned
  tied_embeddings: true
cluster: {name: cores, devices: 2, device: {name: core, family: cpu, peak: {fp32: 1e11, bf16: 1e11}, memory: 2 GB, memory_bandwidth: 1e10}, node: {devices: 2, scale_up: {kind: switched, bandwidth: 1e10}}}
data: {text: [$scratch/text], evaluation_share: 0.02}
training: {global_batch: 8, sequence: 32, precision: fp32, steps: 6, learning_rate: 1e-3, evaluation_batches: 2}
END

# Losses like those of the first, memory as predicted.
same_run() {  # same_run ALONE.json OTHER.json
  python3 - "$1" "$2" <<'END'
import json, sys
alone, other = (json.load(open(path)) for path in sys.argv[1:])
assert len(alone["losses"]) == len(other["losses"]) == 6
for a, b in zip(alone["losses"] + [alone["final_loss"]], other["losses"] + [other["final_loss"]]):
    assert abs(a - b) <= 1e-5 * a, (a, b)
assert other["peak_memory_bytes_by_rank"] == other["predicted_peak_memory_bytes_by_rank"]
assert other["peak_memory_parts"] == other["predicted_peak_memory_parts"]
assert sum(other["peak_memory_parts"].values()) == other["peak_memory_bytes"]
for key in ("steps", "tokens_per_s", "mfu", "scale_factor", "step_time_s", "predicted_step_time_s", "time_to_target_s"):
    assert key in other, key
END
}
