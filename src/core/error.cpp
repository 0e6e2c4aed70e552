#include "core/error.hpp"

#include "core/quote.hpp"

namespace twinpod {
namespace {

// "job.yaml:3:5: ", or as much of it as is known.
std::string place(const Error& error) {
  if (error.file.empty()) return "";
  std::string text = one_line(error.file);
  if (error.line > 0) text += ":" + std::to_string(error.line);
  if (error.line > 0 && error.column > 0) text += ":" + std::to_string(error.column);
  return text + ": ";
}

}  // namespace

std::string to_string(const Error& error) {
  std::string text = place(error) + one_line(error.message);
  if (!error.hint.empty()) text += "\n  " + printable(error.hint);
  return text;
}

}  // namespace twinpod
