// Rings of processes in other PID namespaces, that is, of containers: their ids mean other processes here.
#include <fcntl.h>
#include <sys/file.h>

#include "capture/collect/collector.hpp"
#include "capture/ring/identity.hpp"
#include "capture/ring_fixture.hpp"
#include "support/pid_namespace.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::ring {
namespace {

class PidNamespace : public RingTest {
 protected:
  /// A process of another namespace that has a ring at path().
  std::optional<test::NamespacedProcess> container(const std::function<void(RingWriter&)>& work = {}) {
    return test::NamespacedProcess::start([&](const std::function<void()>& ready) {
      RingWriter* ring = RingWriter::create(path().c_str(), kSmall);
      if (!ring) ::_exit(9);
      ring->header().state = State::alive;
      if (work) work(*ring);
      ready();
    });
  }
};

TEST_F(PidNamespace, AProcessLivesUntilItEnds) {
  std::optional<test::NamespacedProcess> process = container();
  if (!process) GTEST_SKIP() << "no PID namespaces here";
  auto reader = open();
  EXPECT_NE(reader->header().pid_namespace, pidNamespace());
  EXPECT_EQ(reader->header().writer_pid, 1);
  EXPECT_TRUE(reader->alive());
  EXPECT_EQ(reader->process(), process->pid());
  process->kill();
  EXPECT_FALSE(reader->alive());
  EXPECT_EQ(reader->process(), std::nullopt);
}

/// In both it is process 1.
TEST_F(PidNamespace, ProcessesOfTwoContainersHaveTwoIds) {
  auto ringIn = [&](const std::string& file) {
    return test::NamespacedProcess::start([path = dir_ / file](const std::function<void()>& ready) {
      RingWriter* ring = RingWriter::create(path.c_str(), kSmall);
      if (!ring) ::_exit(9);
      ring->header().state = State::alive;
      ready();
    });
  };
  std::optional<test::NamespacedProcess> a = ringIn("a.ring"), b = ringIn("b.ring");
  if (!a || !b) GTEST_SKIP() << "no PID namespaces here";
  auto collect = [&](const std::string& file, const std::string& state) {
    auto writer = std::move(*trace::Writer::create(dir_ / file));
    capture::Collector collector(*writer, "node");
    if (state.empty()) {
      for (const char* ring : {"a.ring", "b.ring"}) EXPECT_TRUE(collector.follow(dir_ / ring, false));
    }
    collector.restore(state);
    EXPECT_TRUE(collector.take());
    std::string after = collector.state();
    EXPECT_TRUE(collector.finish());
    EXPECT_TRUE(writer->close());
    return after;
  };
  const std::set<int64_t> expected{a->pid(), b->pid()};
  auto pids = [&](const std::string& file) {
    std::set<int64_t> all;
    for (const test::Row& r : test::rows(dir_ / file, "processes")) {
      all.insert(r.i("pid"));
      EXPECT_NE(r.s("args").find("\"container_pid\":1}"), std::string::npos) << r.s("args");
    }
    return all;
  };
  const std::string state = collect("first.sbt", "");
  EXPECT_EQ(pids("first.sbt"), expected);
  a->kill();  // an agent that starts again cannot ask for their ids any more
  b->kill();
  collect("second.sbt", state);
  EXPECT_EQ(pids("second.sbt"), expected);
}

TEST_F(PidNamespace, AProgramThatClosesAllItsFilesLives) {
  std::optional<test::NamespacedProcess> process = container([](RingWriter&) {
    for (int fd = 3; fd < 1024; ++fd)
      if (::lseek(fd, 0, SEEK_CUR) >= 0) ::close(fd);
  });
  if (!process) GTEST_SKIP() << "no PID namespaces here";
  EXPECT_TRUE(open()->alive());
}

TEST_F(PidNamespace, AHeartbeatIsEnoughWhereFilesCannotBeLocked) {
  std::optional<test::NamespacedProcess> process = container([](RingWriter& ring) {
    ring.header().locked = 0;
    ring.header().heartbeat_ns = nowNs();
    ring.header().start_ns = 1;
  });
  if (!process) GTEST_SKIP() << "no PID namespaces here";
  auto reader = open();
  EXPECT_TRUE(reader->alive());
  reader->header().heartbeat_ns = 1;
  EXPECT_FALSE(reader->alive());
}

TEST_F(PidNamespace, AReaderInAnotherNamespaceIsSeen) {
  const pid_t writer = start(kSmall, [&](RingWriter&) {
    shared_->ready = true;
    for (;;) ::pause();
  });
  while (!shared_->ready) ::sched_yield();
  std::optional<test::NamespacedProcess> other = test::NamespacedProcess::start([&](const auto& ready) {
    auto reader = RingReader::open(path());
    if (!reader) ::_exit(1);
    (*reader)->attach();
    (*reader)->header().start_ns = 1;  // long ago
    ready();
    for (;;) ::pause();
  });
  if (!other) GTEST_SKIP() << "no PID namespaces here";
  auto reader = open();
  EXPECT_EQ(reader->attachedReader(), 1);
  other->kill();
  EXPECT_EQ(reader->attachedReader(), 0);
  EXPECT_TRUE(reader->alive());
  ::kill(writer, SIGKILL);
  end(writer);
  EXPECT_FALSE(reader->alive());
}

TEST_F(RingTest, AnotherProcessWithTheSameIdIsNotTheWriter) {
  write(kSmall, [](RingWriter& ring) {  // as if its id were given again
    ring.header().writer_pid = ::getppid();
    ring.header().writer_start += 1;  // the two may have started within one tick
  });
  EXPECT_FALSE(open()->alive());
}

TEST_F(RingTest, AZombieDoesNotLive) {
  const pid_t pid = start(kSmall, [](RingWriter&) {});
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(open()->alive());
  end(pid);
}

TEST_F(RingTest, TheLockIsNotTheChilds) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t pid = start(kSmall, [&](RingWriter& ring) {
    const pid_t child = ::fork();
    if (child == 0) {
      ring.unmap();  // as the probe does after a fork
      (void)!::write(told[1], "", 1);
      for (;;) ::pause();
    }
    shared_->progress = static_cast<uint64_t>(child);
  });
  end(pid);
  char byte;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  const int fd = ::open(path().c_str(), O_RDWR);
  EXPECT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0) << "the child of a process that ended holds its lock";
  ::close(fd);
  ::kill(static_cast<pid_t>(shared_->progress.load()), SIGKILL);
  ::close(told[0]);
  ::close(told[1]);
}

}  // namespace
}  // namespace tracesmith::ring
