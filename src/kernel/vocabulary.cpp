#include "kernel/vocabulary.hpp"

#include "kernel/passes.hpp"

namespace twinpod::kernel {

template <typename T>
void look_up(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part, const T* table,
             const T* positions, std::int64_t sequence, T* out, const Dropout& dropout) {
  passes<T>().look_up(rows, width, tokens, part, table, positions, sequence, out, dropout);
}
template decltype(look_up<float>) look_up<float>;
template decltype(look_up<Bf16>) look_up<Bf16>;
template decltype(look_up<double>) look_up<double>;

template <typename T>
void look_up_backward(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part,
                      const T* dout, Sum<T>* dtable, Sum<T>* dpositions, std::int64_t sequence,
                      const Dropout& dropout) {
  passes<T>().look_up_backward(rows, width, tokens, part, dout, dtable, dpositions, sequence, dropout);
}
template decltype(look_up_backward<float>) look_up_backward<float>;
template decltype(look_up_backward<Bf16>) look_up_backward<Bf16>;
template decltype(look_up_backward<double>) look_up_backward<double>;

template <typename T>
void row_maxima(std::int64_t rows, std::int64_t width, const T* logits, Sum<T>* maxima) {
  passes<T>().row_maxima(rows, width, logits, maxima);
}
template decltype(row_maxima<float>) row_maxima<float>;
template decltype(row_maxima<Bf16>) row_maxima<Bf16>;
template decltype(row_maxima<double>) row_maxima<double>;

template <typename T>
void row_sums(std::int64_t rows, const Vocabulary& part, const T* logits, const std::int32_t* labels,
              const Sum<T>* maxima, Sum<T>* sums, Sum<T>* targets) {
  passes<T>().row_sums(rows, part, logits, labels, maxima, sums, targets);
}
template decltype(row_sums<float>) row_sums<float>;
template decltype(row_sums<Bf16>) row_sums<Bf16>;
template decltype(row_sums<double>) row_sums<double>;

template <typename T>
void loss_backward(std::int64_t rows, const Vocabulary& part, T* logits, const std::int32_t* labels,
                   const Sum<T>* maxima, const Sum<T>* sums, double scale) {
  passes<T>().loss_backward(rows, part, logits, labels, maxima, sums, scale);
}
template decltype(loss_backward<float>) loss_backward<float>;
template decltype(loss_backward<Bf16>) loss_backward<Bf16>;
template decltype(loss_backward<double>) loss_backward<double>;

template <typename T>
void loss_and_backward(std::int64_t rows, std::int64_t width, T* logits, const std::int32_t* labels, Sum<T>* losses,
                       double scale) {
  passes<T>().loss_and_backward(rows, width, logits, labels, losses, scale);
}
template decltype(loss_and_backward<float>) loss_and_backward<float>;
template decltype(loss_and_backward<Bf16>) loss_and_backward<Bf16>;
template decltype(loss_and_backward<double>) loss_and_backward<double>;

template <typename T>
void probabilities_of(std::int64_t rows, std::int64_t width, const T* logits, const Sum<T>* maxima, const Sum<T>* sums,
                      T* probabilities) {
  passes<T>().probabilities_of(rows, width, logits, maxima, sums, probabilities);
}
template decltype(probabilities_of<float>) probabilities_of<float>;
template decltype(probabilities_of<Bf16>) probabilities_of<Bf16>;
template decltype(probabilities_of<double>) probabilities_of<double>;

template <typename T>
void gradients_of_probabilities(std::int64_t rows, const Vocabulary& part, const T* probabilities,
                                const std::int32_t* labels, double scale, T* gradients) {
  passes<T>().gradients_of_probabilities(rows, part, probabilities, labels, scale, gradients);
}
template decltype(gradients_of_probabilities<float>) gradients_of_probabilities<float>;
template decltype(gradients_of_probabilities<Bf16>) gradients_of_probabilities<Bf16>;
template decltype(gradients_of_probabilities<double>) gradients_of_probabilities<double>;

}  // namespace twinpod::kernel
