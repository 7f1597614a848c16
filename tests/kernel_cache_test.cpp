// The cache against what goes wrong with files: damage, other owners, missing rights, full limits, processes
// that run at once or die in the middle.
#include "codegen/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace tilefuse {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kLimit = int64_t{1} << 30;

class KernelCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "tilefuse-cache-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    directory_ = (root_ / "cache").string();
  }
  void TearDown() override {
    fs::permissions(root_, fs::perms::owner_all);
    if (fs::exists(directory_)) fs::permissions(directory_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path());
    return found;
  }

  fs::path root_;
  std::string directory_;
};

TEST_F(KernelCacheTest, gives_back_what_was_stored) {
  KernelCache cache(directory_, kLimit);
  EXPECT_EQ(cache.refusal(), "");
  const std::string bytes("a\0b\n", 4);
  cache.store("plan", bytes);
  cache.store("empty", "");
  EXPECT_EQ(cache.load("plan"), bytes);
  EXPECT_EQ(cache.load("empty"), "");
  EXPECT_EQ(cache.load("other"), std::nullopt);
  EXPECT_EQ(KernelCache(directory_, kLimit).load("plan"), bytes);
}

TEST_F(KernelCacheTest, makes_its_directory_private) {
  const std::string deep = directory_ + "/below/tilefuse";
  KernelCache cache(deep, kLimit);
  struct stat facts{};
  ASSERT_EQ(stat(deep.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
}

TEST_F(KernelCacheTest, drops_an_entry_whatever_byte_of_it_changed) {
  KernelCache cache(directory_, kLimit);
  cache.store("key", "some bytes");
  ASSERT_EQ(files().size(), 1U);
  const fs::path path = files().front();
  const auto size = static_cast<int64_t>(fs::file_size(path));
  for (int64_t at = 0; at < size; ++at) {
    cache.store("key", "some bytes");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const auto old = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(old ^ 1));
    file.close();
    EXPECT_EQ(cache.load("key"), std::nullopt) << "byte " << at;
    EXPECT_EQ(cache.find_file("key"), std::nullopt) << "byte " << at;
  }
  cache.store("key", "some bytes");
  EXPECT_EQ(cache.load("key"), "some bytes");
}

TEST_F(KernelCacheTest, drops_an_entry_that_was_cut_short_or_belongs_to_another_key) {
  KernelCache cache(directory_, kLimit);
  cache.store("key", "some bytes");
  const fs::path path = files().front();
  for (uintmax_t size = fs::file_size(path); size-- > 0;) {
    fs::resize_file(path, size);
    EXPECT_EQ(cache.load("key"), std::nullopt) << size;
  }
  cache.store("other", "its bytes");
  for (const fs::path& file : files()) {
    if (file != path) fs::copy_file(file, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.load("key"), std::nullopt);
  EXPECT_EQ(cache.load("other"), "its bytes");
}

TEST_F(KernelCacheTest, reads_nothing_of_another_owner) {
  KernelCache(directory_, kLimit).store("key", "bytes");
  const KernelCache as_another_user(directory_, kLimit, geteuid() + 1);
  EXPECT_EQ(as_another_user.load("key"), std::nullopt);
  EXPECT_EQ(as_another_user.refusal(),
            "cannot cache kernels in " + directory_ + ": it belongs to user " + std::to_string(geteuid()));
}

TEST_F(KernelCacheTest, reads_no_file_of_another_owner_in_its_own_directory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  KernelCache cache(directory_, kLimit);
  cache.store("key", "bytes");
  ASSERT_EQ(chown(files().front().c_str(), 65534, 65534), 0);
  EXPECT_EQ(cache.load("key"), std::nullopt);
}

TEST_F(KernelCacheTest, refuses_a_directory_that_others_can_write) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms::owner_all | fs::perms::group_all);
  KernelCache cache(directory_, kLimit);
  cache.store("key", "bytes");
  EXPECT_EQ(cache.refusal(), "cannot cache kernels in " + directory_ + ": other users can write to it");
  EXPECT_TRUE(files().empty());
}

TEST_F(KernelCacheTest, does_not_follow_links) {
  KernelCache cache(directory_, kLimit);
  cache.store("key", "bytes");
  const fs::path path = files().front();
  fs::rename(path, root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", path);
  EXPECT_EQ(cache.load("key"), std::nullopt);
}

TEST_F(KernelCacheTest, works_without_a_directory) {
  std::ofstream(root_ / "file") << "not a directory";
  for (const std::string& unusable :
       {std::string(), (root_ / "file").string(), (root_ / "file/below").string()}) {
    KernelCache cache(unusable, kLimit);
    EXPECT_NE(cache.refusal(), "") << unusable;
    cache.store("key", "bytes");
    cache.remove("key");
    EXPECT_EQ(cache.load("key"), std::nullopt);
    EXPECT_EQ(cache.stats().entries, 0);
    EXPECT_EQ(cache.clear().entries, 0);
  }
}

TEST_F(KernelCacheTest, a_directory_that_goes_away_costs_the_entries_alone) {
  KernelCache cache(directory_, kLimit);
  ASSERT_EQ(cache.refusal(), "");
  fs::remove_all(directory_);
  cache.store("key", "bytes");
  EXPECT_EQ(cache.load("key"), std::nullopt);
  EXPECT_EQ(cache.stats().entries, 0);
}

// Root may write anywhere, so the child becomes nobody first.
TEST_F(KernelCacheTest, reads_from_a_directory_it_cannot_write) {
  const auto check = [&]() -> int {
    KernelCache cache(directory_, kLimit);
    if (cache.refusal().empty()) return 1;
    if (cache.load("key") != "bytes") return 2;
    cache.store("other", "bytes");
    return cache.load("other") ? 3 : 0;
  };
  const uid_t user = geteuid() == 0 ? 65534 : geteuid();
  KernelCache(directory_, kLimit).store("key", "bytes");
  fs::permissions(root_, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(files().front().c_str(), user, user), 0);
    ASSERT_EQ(chown(directory_.c_str(), user, user), 0);
  }
  const pid_t child = fork();
  if (child == 0) _exit(geteuid() == 0 && setuid(user) != 0 ? 9 : check());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_TRUE(geteuid() != 0 || chown(directory_.c_str(), 0, 0) == 0);
}

TEST_F(KernelCacheTest, stays_below_its_limit_and_keeps_what_was_used_last) {
  constexpr int64_t kSmall = 20000;
  KernelCache cache(directory_, kSmall);
  const std::string bytes(1000, 'x');
  cache.store("favourite", bytes);
  for (int i = 0; i < 60; ++i) {
    cache.store("entry " + std::to_string(i), bytes);
    // As if the favourite had just been used, and everything else an hour per step ago.
    for (const fs::path& file : files()) {
      const bool is_favourite = file == *cache.find_file("favourite");
      const auto age = std::chrono::hours(is_favourite ? 0 : 1);
      fs::last_write_time(file,
                          is_favourite ? fs::file_time_type::clock::now() : fs::last_write_time(file) - age);
    }
    EXPECT_LE(cache.stats().bytes, kSmall);
  }
  EXPECT_GT(cache.stats().entries, 10);
  EXPECT_TRUE(cache.load("favourite"));
  EXPECT_TRUE(cache.load("entry 59"));
  EXPECT_FALSE(cache.load("entry 0"));
}

TEST_F(KernelCacheTest, does_not_store_what_is_larger_than_the_limit) {
  KernelCache cache(directory_, 1000);
  cache.store("small", "bytes");
  cache.store("large", std::string(2000, 'x'));
  EXPECT_TRUE(cache.load("small"));
  EXPECT_FALSE(cache.load("large"));
}

TEST_F(KernelCacheTest, loading_marks_an_old_entry_as_used) {
  KernelCache cache(directory_, kLimit);
  cache.store("key", "bytes");
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100);
  fs::last_write_time(files().front(), long_ago);
  EXPECT_TRUE(cache.load("key"));
  EXPECT_GT(fs::last_write_time(files().front()), long_ago + std::chrono::hours(99));
}

TEST_F(KernelCacheTest, clear_removes_everything_and_says_how_much) {
  KernelCache cache(directory_, kLimit);
  cache.store("a", "1");
  cache.store("b", "22");
  const CacheStats before = cache.stats();
  EXPECT_EQ(before.entries, 2);
  const CacheStats removed = cache.clear();
  EXPECT_EQ(removed.entries, 2);
  EXPECT_EQ(removed.bytes, before.bytes);
  EXPECT_EQ(cache.stats().entries, 0);
  EXPECT_FALSE(cache.load("a"));
}

// Every value a reader ever sees is one that a writer wrote whole.
TEST_F(KernelCacheTest, many_processes_store_and_load_the_same_keys_at_once) {
  const auto value = [](int key, int writer) {
    return std::string(static_cast<size_t>(20000 + key), static_cast<char>('a' + writer));
  };
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      KernelCache cache(directory_, kLimit);
      for (int round = 0; round < 50; ++round) {
        for (int key = 0; key < 5; ++key) {
          cache.store(std::to_string(key), value(key, writer));
          const auto read = cache.load(std::to_string(key));
          if (!read || *read != value(key, (*read)[0] - 'a')) _exit(1);
        }
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(KernelCache(directory_, kLimit).stats().entries, 5);
  EXPECT_EQ(files().size(), 5U);
}

TEST_F(KernelCacheTest, a_process_killed_in_the_middle_leaves_nothing_wrong_behind) {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      KernelCache cache(directory_, kLimit);
      const std::string bytes(1 << 20, 'x');
      for (int i = 0;; ++i) cache.store(std::to_string(i % 3), bytes);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + round));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    KernelCache cache(directory_, kLimit);
    for (int i = 0; i < 3; ++i) {
      const auto read = cache.load(std::to_string(i));
      EXPECT_TRUE(!read || *read == std::string(1 << 20, 'x'));
    }
  }
  // What the dead left goes once it is a minute old; a young file may be a living process' of another
  // container.
  const auto now = fs::file_time_type::clock::now();
  for (const fs::path& file : files()) {
    if (file.filename().string().starts_with("temporary-"))
      fs::last_write_time(file, now - std::chrono::minutes(2));
  }
  std::ofstream(directory_ + "/temporary-" + std::to_string(getpid()) + "-999") << "alive";
  KernelCache cache(directory_, kLimit);
  cache.store("one more", "bytes");
  int temporary = 0;
  for (const fs::path& file : files())
    temporary += file.filename().string().starts_with("temporary-") ? 1 : 0;
  EXPECT_EQ(temporary, 1) << "the file of a living process stays";
}

}  // namespace
}  // namespace tilefuse
