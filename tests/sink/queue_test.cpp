// What waits for a receiver: in order, bounded, there after a restart.
#include <sys/stat.h>

#include <filesystem>

#include "sink/queue.hpp"
#include "support/process.hpp"

#include <gtest/gtest.h>

namespace tracesmith::sink {
namespace {

Message message(const std::string& body, uint64_t items = 1) { return {"metrics", items, body}; }

std::string bodyOf(const Queue& queue) {
  const std::optional<Queue::Front> front = queue.front();
  return front && front->message ? front->message->body : "none";
}

TEST(SinkQueue, GivesTheOldestFirstAndKeepsItUntilItIsRemoved) {
  test::TempDir dir;
  Queue queue;
  ASSERT_TRUE(queue.open(dir / "q", 1000));
  EXPECT_FALSE(queue.front());
  EXPECT_EQ(queue.put(message("a", 3)), 0u);
  EXPECT_EQ(queue.put(message("b")), 0u);
  EXPECT_EQ(queue.items(), 4u);
  EXPECT_EQ(bodyOf(queue), "a");
  EXPECT_EQ(bodyOf(queue), "a");
  queue.remove(queue.front()->number);
  EXPECT_EQ(bodyOf(queue), "b");
  queue.remove(queue.front()->number);
  EXPECT_FALSE(queue.front());
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(SinkQueue, IsThereAfterARestartAndForItsOwnerAlone) {
  test::TempDir dir;
  {
    Queue queue;
    ASSERT_TRUE(queue.open(dir / "q", 1000));
    for (int i = 0; i < 12; ++i) queue.put(message(std::to_string(i), 2));
    queue.remove(queue.front()->number);
  }
  struct stat state {};
  ASSERT_EQ(::stat((dir / "q").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
  for (const auto& file : std::filesystem::directory_iterator(dir / "q")) {
    ASSERT_EQ(::stat(file.path().c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777, 0600u);
  }
  Queue queue;
  ASSERT_TRUE(queue.open(dir / "q", 1000));
  EXPECT_EQ(queue.items(), 22u);
  for (int i = 1; i < 12; ++i) {
    EXPECT_EQ(bodyOf(queue), std::to_string(i));
    EXPECT_EQ(queue.front()->message->kind, "metrics");
    queue.remove(queue.front()->number);
  }
  EXPECT_EQ(queue.put(message("new")), 0u);
  EXPECT_EQ(bodyOf(queue), "new");
}

TEST(SinkQueue, LosesTheOldestWhereThereIsNoRoomAndCountsIt) {
  test::TempDir dir;
  Queue queue;
  ASSERT_TRUE(queue.open(dir / "q", 10));
  EXPECT_EQ(queue.put(message("aaaa", 5)), 0u);
  EXPECT_EQ(queue.put(message("bbbb", 6)), 0u);
  EXPECT_EQ(queue.put(message("cccc", 7)), 5u);
  EXPECT_EQ(bodyOf(queue), "bbbb");
  EXPECT_EQ(queue.put(message("too much for all of it", 8)), 8u) << "and nothing else goes for it";
  EXPECT_EQ(queue.bytes(), 8u);
}

TEST(SinkQueue, SaysSoWhereAMessageCannotBeReadAnyMore) {
  test::TempDir dir;
  Queue queue;
  ASSERT_TRUE(queue.open(dir / "q", 100));
  queue.put(message("abc", 9));
  for (const auto& file : std::filesystem::directory_iterator(dir / "q")) test::writeFile(file.path().string(), "a");
  const std::optional<Queue::Front> front = queue.front();
  ASSERT_TRUE(front);
  EXPECT_FALSE(front->message);
  EXPECT_EQ(front->items, 9u);
}

}  // namespace
}  // namespace tracesmith::sink
