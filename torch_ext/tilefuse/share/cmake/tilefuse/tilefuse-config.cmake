# The library that runs fused programs from C++, with the LibTorch that it was built for.
#
#   find_package(tilefuse REQUIRED)
#   target_link_libraries(app PRIVATE tilefuse::tilefuse)
#
# and tilefuse::cuda, where LibTorch has the part for CUDA, for files whose tensors are on a GPU.
#
# CMAKE_PREFIX_PATH names the folder of the tilefuse package; and LibTorch, or the folder of the torch package, where that
# does not lie beside it.
get_filename_component(_tilefuse_folder "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_path(tilefuse_TORCH NAMES lib/libtorch_cpu.so PATHS ${CMAKE_PREFIX_PATH} "${_tilefuse_folder}/../torch"
  PATH_SUFFIXES . ../.. NO_DEFAULT_PATH)  # torch.utils.cmake_prefix_path lies two folders below
if(NOT tilefuse_TORCH)
  set(tilefuse_FOUND FALSE)
  set(tilefuse_NOT_FOUND_MESSAGE "there is no lib/libtorch_cpu.so in CMAKE_PREFIX_PATH, and no torch package beside ${_tilefuse_folder}")
  return()
endif()
get_filename_component(_tilefuse_torch "${tilefuse_TORCH}" ABSOLUTE)

if(NOT TARGET tilefuse::tilefuse)
  foreach(_tilefuse_part torch_cpu c10)
    add_library(tilefuse::${_tilefuse_part} SHARED IMPORTED)
    set_target_properties(tilefuse::${_tilefuse_part} PROPERTIES IMPORTED_LOCATION "${_tilefuse_torch}/lib/lib${_tilefuse_part}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_tilefuse_torch}/include;${_tilefuse_torch}/include/torch/csrc/api/include")
  endforeach()
  add_library(tilefuse::tilefuse SHARED IMPORTED)
  set_target_properties(tilefuse::tilefuse PROPERTIES IMPORTED_LOCATION "${_tilefuse_folder}/lib/libtilefuse_torch.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_tilefuse_folder}/include")
  target_compile_features(tilefuse::tilefuse INTERFACE cxx_std_20)
  # A linker told to drop what the program itself does not call (--as-needed: Ubuntu's compilers tell it so) would drop
  # libtorch_cpu.so. libtilefuse_torch.so calls it, and finds it where the program has it.
  target_link_libraries(tilefuse::tilefuse INTERFACE tilefuse::torch_cpu tilefuse::c10
    "-Wl,--push-state,--no-as-needed,${_tilefuse_torch}/lib/libtorch_cpu.so,${_tilefuse_torch}/lib/libc10.so,--pop-state")
  if(EXISTS "${_tilefuse_torch}/lib/libtorch_cuda.so")  # nobody calls it: loaded, it tells libtorch_cpu.so what it can do
    add_library(tilefuse::cuda INTERFACE IMPORTED)
    target_link_libraries(tilefuse::cuda INTERFACE
      "-Wl,--push-state,--no-as-needed,${_tilefuse_torch}/lib/libtorch_cuda.so,${_tilefuse_torch}/lib/libc10_cuda.so,--pop-state")
    target_link_options(tilefuse::cuda INTERFACE "-Wl,--allow-shlib-undefined")
  endif()
endif()
