# Joins a runtime header and its parts into one text and writes a C++ source with a function that returns it:
#   cmake -DINPUT=tilefuse_cpu.h -DFUNCTION=cpu_runtime_text -DOUTPUT=cpu_runtime_text.cpp -P embed.cmake
# Each part once, after the parts it includes. Comment lines go: the compiler reads this text for every kernel.

cmake_minimum_required(VERSION 3.22)
set_property(GLOBAL PROPERTY parts "")

function(add_part path)
  get_property(parts GLOBAL PROPERTY parts)
  if(path IN_LIST parts)
    return()
  endif()
  file(READ "${path}" text)
  get_filename_component(folder "${path}" DIRECTORY)
  string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include \"([^\"]+)\"" "\\1" name "${include}")
    add_part("${folder}/${name}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY parts "${path}")
endfunction()

add_part("${INPUT}")
get_property(parts GLOBAL PROPERTY parts)

# The defaults at the top of the main header come before its parts.
set(joined "")
if(FUNCTION STREQUAL "cpu_runtime_text")
  set(joined "#ifndef TILEFUSE_LANES\n#define TILEFUSE_LANES 16\n#endif\n")
endif()
foreach(part IN LISTS parts)
  file(READ "${part}" text)
  string(REGEX REPLACE "#include \"[^\"]+\"[^\n]*\n" "" text "${text}")
  string(REPLACE "#pragma once\n" "" text "${text}")
  string(REGEX REPLACE "\n[ ]*//[^\n]*" "" text "\n${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  string(APPEND joined "${text}")
endforeach()

file(WRITE "${OUTPUT}.new" "// Made by embed.cmake from a header and its parts.
#include \"codegen/runtime/cpu_runtime.h\"

namespace tilefuse {
std::string_view ${FUNCTION}() {
  return R\"runtime(${joined})runtime\";
}
}  // namespace tilefuse
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
