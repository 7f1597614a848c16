// Writes what the stages produce to numbered files, when asked to; passed down the pipeline.
//
//   Trace trace(options.dump, options.dump_dir);            // nothing asked for: every write is a no-op
//   Trace of_graph = trace.within("resnet_0");
//   trace.write(DumpStage::Capture, ...);                   -> 00-capture.json, for `tilefuse replay`
//   of_graph.write(DumpStage::Graph, [&] { return to_text(graph); });       -> resnet_0/01-graph.txt
//   of_graph.within("region_3").write(DumpStage::Schedule, ...);            ->
//   resnet_0/region_3/05-schedule.txt
//
// A text equal to the last one of the same stage and prefix is written as the one line "unchanged", after a
// further number: 01-graph.2.txt. A file that cannot be written is a UserError that names it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/options.h"

namespace tilefuse {

class Trace {
 public:
  Trace() = default;  // writes nothing
  Trace(std::set<DumpStage> stages, std::string directory);

  Trace within(const std::string& prefix) const;
  bool writes(DumpStage stage) const;
  // `text` is called only if the stage was asked for.
  void write(DumpStage stage, const std::function<std::string()>& text) const;

 private:
  // Of all traces made from one: files are numbered, and compared, across threads.
  struct Written {
    std::mutex mutex;
    struct Last {
      int count = 0;
      std::string text;
    };
    std::map<std::string, Last> files;
  };

  std::set<DumpStage> stages_;
  std::string directory_;
  std::shared_ptr<Written> written_;
};

}  // namespace tilefuse
