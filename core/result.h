// The three kinds of failure, never mixed (docs/robustness.md):
//
//   Unsupported    we choose not to; carried in Result<T>; the region stays with the framework.
//   UserError      the caller's mistake; becomes the framework's own exception.
//   InternalError  our bug; thrown by TILEFUSE_CHECK with stage, message and IR text.
//
//   Result<Schedule> s = solve(system);
//   if (!s) return s.unsupported();        // a full sentence: "cannot X: fact, limit"
//   use(*s);
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace tilefuse {

struct Unsupported {
  std::string reason;
};

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                // NOLINT(google-explicit-constructor)
  Result(Unsupported refusal) : state_(std::move(refusal)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T& operator*() & { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  const T* operator->() const { return &std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const Unsupported& unsupported() const { return std::get<Unsupported>(state_); }

 private:
  std::variant<T, Unsupported> state_;
};

[[noreturn]] void throw_internal_error(const char* condition, const std::string& message, const char* file,
                                       int line);

#define TILEFUSE_CHECK(condition, message)                                                       \
  do {                                                                                           \
    if (!(condition)) ::tilefuse::throw_internal_error(#condition, message, __FILE__, __LINE__); \
  } while (false)

}  // namespace tilefuse
