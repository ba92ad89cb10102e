#include "base/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace tracesmith {

Status checkInterface(const std::string& name) {
  if (::if_nametoindex(name.c_str()) != 0) return {};
  std::string all;
  if (struct if_nameindex* const list = ::if_nameindex()) {
    for (const struct if_nameindex* i = list; i->if_index != 0; ++i)
      all += (all.empty() ? "" : ", ") + std::string(i->if_name);
    ::if_freenameindex(list);
  }
  return Status::notFound("there is no network interface " + name + "; there are: " + all);
}

Status bindToInterface(int socket, int family, const std::string& name) {
  if (name.empty()) return {};
  if (::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size() + 1)) == 0)
    return {};
  // Kernels before 5.7 let only root do that. An address of the interface says it, too, where routes go by addresses.
  const int refused = errno;
  ifaddrs* list = nullptr;
  bool bound = false;
  if (::getifaddrs(&list) != 0) list = nullptr;
  for (const ifaddrs* a = list; a && !bound; a = a->ifa_next)
    if (a->ifa_addr && name == a->ifa_name && a->ifa_addr->sa_family == family)
      bound = ::bind(socket, a->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)) == 0;
  if (list) ::freeifaddrs(list);
  if (bound) return {};
  return Status::io("cannot use the network interface " + name + ": " + std::strerror(refused));
}

}  // namespace tracesmith
