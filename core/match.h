// Exhaustive matching over the closed variants of our IRs; a missing case is one readable compile error.
//
//   match(node.op, [&](const Map& map) { ... }, [&](const Reduce& reduce) { ... });
#pragma once
#include <type_traits>
#include <utility>
#include <variant>

namespace tilefuse {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

template <class... Ts, class... Fs>
decltype(auto) match(const std::variant<Ts...>& value, Fs... handlers) {
  using Handlers = Overloaded<Fs...>;
  static_assert((std::is_invocable_v<Handlers&, const Ts&> && ...),
                "match: an alternative of this IR has no handler");
  return std::visit(Handlers{std::move(handlers)...}, value);
}

}  // namespace tilefuse
