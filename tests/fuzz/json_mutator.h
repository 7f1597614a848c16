// Changes a JSON document somewhere inside: what bytes changed at random hardly ever do and leave JSON.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace tilefuse::fuzz {

using MutateText = std::function<std::string(const std::string&)>;  // bytes changed at random

// One to four edits: a value replaced, removed, repeated, or put in the place of another.
nlohmann::json mutated(nlohmann::json document, std::mt19937& random, const MutateText& mutate_text);

}  // namespace tilefuse::fuzz
