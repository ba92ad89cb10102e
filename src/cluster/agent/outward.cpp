#include "cluster/agent/outward.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/interface.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kLookMs = 200;  // how soon a thread sees that it is to end
constexpr int kConnectMs = 5000;
constexpr size_t kBuffer = 64 << 10;

/// A connected socket, or −1.
int dial(const access::Address& to, const std::string& interface, const std::atomic<bool>& stop) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found) != 0) return -1;
  int connected = -1;
  for (addrinfo* a = found; a && connected < 0; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) continue;
    bool good = bindToInterface(fd, a->ai_family, interface).ok();
    if (good && ::connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
      good = errno == EINPROGRESS;
      pollfd p{fd, POLLOUT, 0};
      int left = kConnectMs, ready = 0;
      for (; good && left > 0 && ready == 0 && !stop; left -= kLookMs) ready = ::poll(&p, 1, kLookMs);
      int error = ETIMEDOUT;
      socklen_t size = sizeof error;
      good = good && ready == 1 && ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    if (good)
      connected = fd;
    else
      ::close(fd);
  }
  ::freeaddrinfo(found);
  return connected;
}

/// One direction of a passage: what was read and is not written yet.
struct Way {
  Way(int source, int target) : from(source), to(target) {}
  int from, to;
  char bytes[kBuffer];
  size_t begin = 0, end = 0;
  bool ended = false;
  short wanted(int fd) const {
    if (fd == from && begin == end && !ended) return POLLIN;
    return fd == to && begin < end ? POLLOUT : short{0};
  }
  /// False: the connection is broken.
  bool move() {
    if (begin == end && !ended) {
      const ssize_t n = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      begin = 0;
      end = static_cast<size_t>(n);
      if (n == 0) {
        ended = true;
        ::shutdown(to, SHUT_WR);
      }
    }
    if (begin == end) return true;
    const ssize_t n = ::send(to, bytes + begin, end - begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    begin += static_cast<size_t>(n);
    return true;
  }
};

}  // namespace

struct Outward::Passage {
  explicit Passage(int fd) : inside(fd) {}
  ~Passage() {
    if (thread.joinable()) thread.join();
    ::close(inside);
  }
  int inside;
  std::atomic<bool> finished{false};
  std::thread thread;
};

struct Outward::Door {
  std::string address, path;
  int socket = -1;
  std::list<std::unique_ptr<Passage>> passages;  // of its own thread
  std::thread thread;
  ~Door() {
    if (thread.joinable()) thread.join();
    passages.clear();
    if (socket >= 0) ::close(socket);
  }
};

Result<std::unique_ptr<Outward>> Outward::create(const std::string& interface) {
  std::unique_ptr<Outward> out(new Outward());
  out->interface_ = interface;
  if (interface.empty()) return out;
  TS_TRY(checkInterface(interface));
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder) return folder.status();
  out->folder_ = std::move(*folder);
  return out;
}

Outward::~Outward() {
  stop_ = true;
  doors_.clear();
}

Result<std::shared_ptr<grpc::Channel>> Outward::open(const std::string& address,
                                                     const access::SecurityOptions& security) {
  if (interface_.empty()) return openChannel(address, security);
  Result<std::string> door = doorTo(address);
  if (!door) return door.status();
  return openChannel(address, security, "unix:" + *door);
}

Result<std::string> Outward::doorTo(const std::string& address) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Door>& door = doors_[address];
  if (door) return door->path;
  auto made = std::make_unique<Door>();
  made->address = address;
  made->path = folder_.path() + "/" + std::to_string(doors_.size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (made->path.size() >= sizeof name.sun_path)
    return Status::invalid("the folder for temporary files has too long a name for a socket: set TMPDIR");
  std::memcpy(name.sun_path, made->path.c_str(), made->path.size() + 1);
  made->socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made->socket < 0 || ::bind(made->socket, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(made->socket, 16) != 0)
    return errnoStatus("create", made->path);
  door = std::move(made);
  door->thread = std::thread([this, d = door.get()] { serve(*d); });
  return door->path;
}

void Outward::serve(Door& door) {
  while (!stop_) {
    pollfd p{door.socket, POLLIN, 0};
    if (::poll(&p, 1, kLookMs) == 1) {
      const int fd = ::accept4(door.socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) continue;
      Passage& passage = *door.passages.emplace_back(std::make_unique<Passage>(fd));
      passage.thread = std::thread([this, &passage, &door] {
        pass(passage, door.address);
        passage.finished = true;
      });
    }
    std::erase_if(door.passages, [](const std::unique_ptr<Passage>& one) { return one->finished.load(); });
  }
}

void Outward::pass(Passage& passage, const std::string& address) const {
  const Result<access::Address> to = access::parseAddress(address, kMasterPort);
  const int outside = to ? dial(*to, interface_, stop_) : -1;
  if (outside < 0) {
    ::shutdown(passage.inside, SHUT_RDWR);
    return;
  }
  auto out = std::make_unique<Way>(passage.inside, outside), in = std::make_unique<Way>(outside, passage.inside);
  while (!stop_ && !(out->ended && in->ended)) {
    pollfd both[2] = {{passage.inside, 0, 0}, {outside, 0, 0}};
    for (pollfd& p : both) p.events = static_cast<short>(out->wanted(p.fd) | in->wanted(p.fd));
    if (::poll(both, 2, kLookMs) < 0 && errno != EINTR) break;
    if (!out->move() || !in->move()) break;
  }
  ::close(outside);
  ::shutdown(passage.inside, SHUT_RDWR);
}

}  // namespace tracesmith::cluster
