// Rings and folders that others have tampered with are refused, or lead nowhere outside the file.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "capture/ring_fixture.hpp"

namespace tracesmith::ring {
namespace {

using test::TempDir;

/// Rings that were tampered with.
class HostileRing : public RingTest {
 protected:
  void SetUp() override {
    write(kSmall, [](RingWriter& ring) {
      Record r = numbered(1);
      r.name = ring.intern("name");
      for (int i = 0; i < 3000; ++i) ring.write(r);
    });
    good_ = test::readFile(path());
    ASSERT_TRUE(RingReader::open(path()));
  }
  template <typename T>
  void expectRefused(size_t offset, T value, const char* what) {
    std::string bytes = good_;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    test::writeFile(path(), bytes);
    Result<std::unique_ptr<RingReader>> reader = RingReader::open(path());
    ASSERT_FALSE(reader) << what;
    EXPECT_NE(reader.status().message().find(path()), std::string::npos) << reader.status().message();
  }
  /// Opens a changed ring and reads everything; it must end and stay inside the file.
  template <typename T>
  void expectSurvived(size_t offset, T value) {
    std::string bytes = good_;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    test::writeFile(path(), bytes);
    auto reader = open();
    ASSERT_TRUE(reader);
    size_t length = 0;
    auto visit = [&](uint32_t, const Record& r) { length += reader->string(r.name).size(); };
    EXPECT_LE(reader->snapshot(visit), 8u * 1024);
    EXPECT_LE(reader->drain(visit), 8u * 1024);
    EXPECT_LT(length, 1u << 30);  // names stay inside the file
  }
  static size_t lane(uint32_t index, size_t field) { return 4096 + index * sizeof(LaneHeader) + field; }
  std::string good_;
};

TEST_F(HostileRing, IsRefused) {
  using H = RingHeader;
  expectRefused(offsetof(H, magic), uint64_t{1}, "wrong magic");
  expectRefused(offsetof(H, version), 99u, "another version");
  expectRefused(offsetof(H, record_bytes), 32u, "other records");
  expectRefused(offsetof(H, file_bytes), uint64_t{4096}, "size in the header is not the file's");
  expectRefused(offsetof(H, lanes), 0u, "no lanes");
  expectRefused(offsetof(H, lanes), 1000000u, "too many lanes");
  expectRefused(offsetof(H, lanes_offset), uint64_t{1} << 60, "lanes beyond the file");
  expectRefused(offsetof(H, lanes_offset), ~uint64_t{0} - 1023, "lanes that wrap around");
  expectRefused(offsetof(H, lanes_offset), uint64_t{4097}, "lanes at an odd place");
  expectRefused(offsetof(H, strings_offset), ~uint64_t{0}, "strings beyond the file");
  expectRefused(offsetof(H, strings_bytes), uint64_t{1} << 40, "strings longer than the file");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 0u, "a lane without records");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 1000u, "a capacity that is no power of two");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 1u << 31, "a lane longer than the file");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), uint64_t{4100}, "a lane at an odd place");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), uint64_t{1} << 50, "a lane beyond the file");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), ~uint64_t{0} - 63, "a lane that wraps around");
}

TEST_F(HostileRing, IsRefusedWhenCut) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, good_.size() / 2, good_.size() - 1}) {
    test::writeFile(path(), good_.substr(0, size));
    EXPECT_FALSE(RingReader::open(path())) << size;
  }
}

TEST_F(HostileRing, DoesNotLeadOutsideTheFile) {
  for (uint64_t v : {uint64_t{0}, uint64_t{5}, uint64_t{100000}, uint64_t{1} << 63, ~uint64_t{0}}) {
    expectSurvived(lane(1, offsetof(LaneHeader, head)), v);
    expectSurvived(lane(1, offsetof(LaneHeader, tail)), v);
  }
  expectSurvived(offsetof(RingHeader, lanes_used), ~0u);
  const size_t strings = good_.size() - kSmall.strings_bytes;
  expectSurvived(strings + 8, ~0u);  // the length of the first string
  expectSurvived(strings + 8, kSmall.strings_bytes);
}

TEST_F(HostileRing, HasNoLongNames) {
  const uint32_t length = kMaxString + 1;
  std::string bytes = good_;
  std::memcpy(bytes.data() + good_.size() - kSmall.strings_bytes + 8, &length, sizeof length);
  test::writeFile(path(), bytes);
  EXPECT_EQ(open()->string(8), "");
}

TEST_F(HostileRing, WithALeaseKeepsNobodyWaiting) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::signal(SIGIO, SIG_IGN);  // asked to give it back, it does not
    const int fd = ::open(path().c_str(), O_RDWR);
    (void)!::write(told[1], ::fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? "y" : "n", 1);
    for (;;) ::pause();
  }
  children_.insert(owner);
  char leased = 0;
  ASSERT_EQ(::read(told[0], &leased, 1), 1);
  ::close(told[0]);
  ::close(told[1]);
  if (leased != 'y') GTEST_SKIP() << "no leases on this file system";
  EXPECT_FALSE(RingReader::open(path())) << "it has waited until the kernel broke the lease";
  ::kill(owner, SIGKILL);
  end(owner);
  EXPECT_TRUE(RingReader::open(path()));
}

TEST_F(HostileRing, IsRefusedWhenItIsNoFile) {
  std::filesystem::create_directory(dir_ / "folder.ring");
  EXPECT_FALSE(RingReader::open(dir_ / "folder.ring"));
  ASSERT_EQ(::mkfifo((dir_ / "pipe.ring").c_str(), 0600), 0);
  EXPECT_FALSE(RingReader::open(dir_ / "pipe.ring"));
  std::filesystem::create_symlink(path(), dir_ / "link.ring");
  EXPECT_FALSE(RingReader::open(dir_ / "link.ring"));
  EXPECT_FALSE(RingReader::open(dir_ / "none.ring"));
}

TEST(RingFolder, MustBeOursAlone) {
  TempDir dir;
  const char* before = std::getenv("TRACESMITH_DIR");
  const std::string saved = before ? before : "";
  auto folder = [&](const std::string& path) {
    ::setenv("TRACESMITH_DIR", path.c_str(), 1);
    return ringFolder();
  };
  Result<std::string> made = folder(dir / "new");
  ASSERT_TRUE(made) << made.status().message();
  struct stat st;
  ASSERT_EQ(::stat(made->c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  for (mode_t mode : {0755u, 0770u, 0701u}) {
    ASSERT_EQ(::chmod(made->c_str(), mode), 0);
    Result<std::string> refused = folder(dir / "new");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.status().message().find("chmod 700"), std::string::npos);
  }
  ASSERT_EQ(::chmod(made->c_str(), 0700), 0);
  std::filesystem::create_symlink(*made, dir / "link");
  EXPECT_FALSE(folder(dir / "link"));
  test::writeFile(dir / "file", "");
  EXPECT_FALSE(folder(dir / "file"));
  EXPECT_FALSE(folder(dir / "none/deeper"));
  if (before)
    ::setenv("TRACESMITH_DIR", saved.c_str(), 1);
  else
    ::unsetenv("TRACESMITH_DIR");
}

}  // namespace
}  // namespace tracesmith::ring
