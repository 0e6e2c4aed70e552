// Metrics for people: labels, units and formulas with the numbers filled in.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/thousands.hpp"
#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "plan/metrics.hpp"
#include "spec/names.hpp"

namespace twinpod::plan {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string tokens_per_s(double rate) { return format_count(rate) + " tokens/s"; }

class Lines {
 public:
  Lines(const Metrics& metrics, const spec::Job& job) : m_(metrics), job_(job) {}

  std::vector<MetricLine> all() {
    add_throughput();
    add_utilisation();
    add_scaling();
    add_whole_run();
    add_accuracy();
    return std::move(lines_);
  }

 private:
  void add(std::string key, std::string label, std::string value, std::string formula) {
    lines_.push_back({std::move(key), std::move(label), std::move(value), std::move(formula)});
  }

  void add_throughput() {
    add("tokens_per_s", "tokens/s", tokens_per_s(m_.tokens_per_s),
        fmt::format("global_batch × sequence / step time = {:.0f} × {} / {}", job_.training.global_batch,
                    job_.training.sequence, format_seconds(m_.step_time_s)));
    add("tokens_per_s_per_device", "tokens/s of a device", tokens_per_s(m_.tokens_per_s_per_device),
        fmt::format("tokens/s / n = {} / {}", format_count(m_.tokens_per_s), job_.cluster.devices));
  }

  void add_utilisation() {
    const double flop = model::training_flop(job_.model, job_.training.sequence);
    const std::string peak =
        fmt::format("{} peak {}", spec::name_of(job_.training.precision), format_flop_per_s(m_.peak_flop_per_s));
    add("model_flop_per_s", "model FLOP/s of a device", format_flop_per_s(m_.model_flop_per_s),
        fmt::format(
            "3 × forward FLOP of a token (causal attention at half, no recompute) × tokens/s / n = {}FLOP × {} / {}",
            with_prefix(flop), format_count(m_.tokens_per_s), job_.cluster.devices));
    add("hardware_flop_per_s", "hardware FLOP/s of a device", format_flop_per_s(m_.hardware_flop_per_s),
        "FLOP that the device executes, recompute included / step time");
    add("mfu", "MFU", percent(m_.mfu),
        fmt::format("model FLOP/s / peak = {} / {}", format_flop_per_s(m_.model_flop_per_s), peak));
    add("hfu", "HFU", percent(m_.hfu),
        fmt::format("hardware FLOP/s / peak = {} / {}", format_flop_per_s(m_.hardware_flop_per_s), peak));
    add("cluster_utilisation", "cluster utilisation", percent(m_.cluster_utilisation),
        "share of the step in which a device computes: (products + attention + elements + head + recompute + "
        "optimizer) / "
        "step time");
    add("bubble_share", "bubble", percent(m_.bubble_share), "time that a device waits for other stages / step time");
  }

  void add_scaling() {
    const double rate = model::training_flop(job_.model, job_.training.sequence) * m_.one_device_tokens_per_s;
    add("scale_factor", "scale factor", fmt::format("{:.3f}", m_.scale_factor),
        fmt::format("T_n / (n × T) = {} / ({} × {}); T: one device, as if it had memory enough, with as many tokens",
                    format_count(m_.tokens_per_s), job_.cluster.devices, format_count(m_.one_device_tokens_per_s)));
    add("computation_rate_flop_per_s", "computation rate", format_flop_per_s(m_.computation_rate_flop_per_s),
        fmt::format("rate of one device × devices × parallel efficiency = {} × {} × {:.3f}", format_flop_per_s(rate),
                    job_.cluster.devices, m_.scale_factor));
  }

  void add_whole_run() {
    if (!m_.time_to_train_s) return;
    const std::string time = format_seconds(*m_.time_to_train_s);
    add("time_to_train_s", "time to train", time,
        fmt::format("tokens / tokens/s = {} / {}", format_count(m_.training_tokens), format_count(m_.tokens_per_s)));
    add("time_to_train_8tp_s", "the same by 8·T·P/(n·X)", format_seconds(*m_.time_to_train_8tp_s),
        fmt::format("8 × {} tokens × {} parameters / ({} × {})", format_count(m_.training_tokens),
                    format_count(visited_parameters(job_)), job_.cluster.devices,
                    format_flop_per_s(m_.hardware_flop_per_s)));
    add("device_hours", "device-hours", with_thousands(*m_.device_hours),
        fmt::format("devices × time = {} × {}", job_.cluster.devices, time));
    add_cost();
    add("energy_kwh", "energy",
        m_.energy_kwh ? with_thousands(*m_.energy_kwh) + " kWh" : "not known: no power in the catalog",
        fmt::format("power of a device with its share of the node × devices × time = {:.0f} W × {} × {}",
                    watts_per_device(job_.cluster), job_.cluster.devices, time));
  }

  void add_cost() {
    add("cost_usd", "cost", m_.cost_usd ? with_thousands(*m_.cost_usd) + " USD" : "not known: no price in the catalog",
        fmt::format("device-hours × price of a device-hour = {} × {:.2f} USD", with_thousands(*m_.device_hours),
                    usd_per_device_hour(job_.cluster)));
  }

  void add_accuracy() {
    if (!m_.accuracy) return;
    const TimeToAccuracy& a = *m_.accuracy;
    const ScalingLaw law = besiroglu_2024();
    const std::string formula = fmt::format(
        "L = E + A/N^α + B/D^β with E {}, A {}, α {}, B {}, β {} ({}); critical batch 2e8/L^(1/0.21) = {} tokens "
        "(Kaplan et "
        "al. 2020); tokens × (1 + batch/critical) = × {:.2f}",
        law.floor, law.a, law.alpha, law.b, law.beta, law.source, format_count(a.critical_batch_tokens),
        a.batch_factor);
    if (!a.tokens) {
      add("time_to_accuracy_s", fmt::format("time to loss {:g}", a.target_loss),
          fmt::format("this model cannot reach it: its floor is {:.3f}", a.floor), formula);
      return;
    }
    add("time_to_accuracy_s", fmt::format("time to loss {:g}", a.target_loss),
        fmt::format("{} ({} tokens, {} steps)", format_seconds(*a.seconds), format_count(*a.tokens),
                    with_thousands(*a.steps)),
        formula);
  }

  // "1.05 T" for 1.05e12: format_count calls 10^9 B, which is no prefix of FLOP.
  static std::string with_prefix(double value) {
    const std::string text = format_flop_per_s(value);
    return text.substr(0, text.find("FLOP"));
  }

  const Metrics& m_;
  const spec::Job& job_;
  std::vector<MetricLine> lines_;
};

}  // namespace

std::vector<MetricLine> described(const Metrics& metrics, const spec::Job& job) { return Lines(metrics, job).all(); }

}  // namespace twinpod::plan
