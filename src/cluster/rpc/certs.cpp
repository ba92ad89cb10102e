#include "cluster/rpc/certs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>

#include "access/names.hpp"
#include "base/file.hpp"

namespace tracesmith::cluster {
namespace {

namespace fs = std::filesystem;

constexpr long kEarlyS = 300;  // clocks of other machines may be behind ours
constexpr int kMostHosts = 4096, kMostDays = 36500;

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* p) const { Free(p); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION, X509_EXTENSION_free>>;
struct BioFree {
  void operator()(BIO* p) const { ::BIO_free(p); }
};
using Bio = std::unique_ptr<BIO, BioFree>;

Status opensslStatus(const std::string& what) {
  char text[256] = "unknown reason";
  if (const unsigned long code = ::ERR_get_error()) ::ERR_error_string_n(code, text, sizeof text);
  ::ERR_clear_error();
  return Status::io("cannot " + what + ": " + text);
}

struct Signed {
  Certificate certificate;
  Key key;
};

/// What a certificate says of its holder.
struct Holder {
  std::string name;
  bool authority = false;
  std::string usage;  // of the key, beyond an authority's
  std::string hosts;  // "DNS:a,IP:1.2.3.4"
};

bool extend(X509* certificate, X509* issuer, int id, const std::string& text) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension e(::X509V3_EXT_conf_nid(nullptr, &context, id, text.c_str()));
  return e && ::X509_add_ext(certificate, e.get(), -1) == 1;
}

/// Signed by `authority`, or by itself.
Result<Signed> makeOne(const Holder& holder, const Signed* authority, const CertificateOptions& o) {
  Signed made{Certificate(::X509_new()), Key(::EVP_EC_gen("P-256"))};
  X509* c = made.certificate.get();
  const Status failed = Status::io("cannot create a certificate for " + holder.name);
  unsigned char serial[16];
  if (!c || !made.key || ::RAND_bytes(serial, sizeof serial) != 1) return failed;
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Freed<BIGNUM, BN_free>> number(::BN_bin2bn(serial, sizeof serial, nullptr));
  if (!number || !::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(c))) return failed;
  const std::time_t from = o.valid_from_s ? static_cast<std::time_t>(o.valid_from_s) : std::time(nullptr) - kEarlyS;
  X509* issuer = authority ? authority->certificate.get() : c;
  X509_NAME* subject = ::X509_get_subject_name(c);
  auto put = [&](const char* field, const std::string& text) {
    return ::X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                        reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0) == 1;
  };
  const bool good =
      ::X509_set_version(c, 2) == 1 && ::ASN1_TIME_set(::X509_getm_notBefore(c), from) &&
      ::ASN1_TIME_set(::X509_getm_notAfter(c), from + kEarlyS + static_cast<std::time_t>(o.days) * 86400) &&
      ::X509_set_pubkey(c, made.key.get()) == 1 && put("O", "TraceSmith") && put("CN", holder.name) &&
      ::X509_set_issuer_name(c, ::X509_get_subject_name(issuer)) == 1 &&
      extend(c, issuer, NID_basic_constraints, holder.authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
      extend(c, issuer, NID_key_usage,
             holder.authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
      extend(c, issuer, NID_subject_key_identifier, "hash") &&
      extend(c, issuer, NID_authority_key_identifier, "keyid") &&
      (holder.usage.empty() || extend(c, issuer, NID_ext_key_usage, holder.usage)) &&
      (holder.hosts.empty() || extend(c, issuer, NID_subject_alt_name, holder.hosts)) &&
      ::X509_sign(c, authority ? authority->key.get() : made.key.get(), ::EVP_sha256()) > 0;
  if (!good) return opensslStatus("make a certificate for " + holder.name);
  return made;
}

/// A file that is new, whole, and for its owner only where it is a key.
Status writeNew(const std::string& path, int mode, const auto& write) {
  const Bio memory(::BIO_new(::BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) return opensslStatus("write " + path);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return errnoStatus("create", path);
  const ssize_t written = ::write(fd, data, static_cast<size_t>(size));
  const Status status = written == size ? Status() : errnoStatus("write", path);
  ::close(fd);
  return status;
}

Result<Certificate> readCertificate(const std::string& path) {
  const Bio in(::BIO_new_file(path.c_str(), "r"));
  if (!in) return errnoStatus("read", path);
  Certificate certificate(::PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
  if (!certificate) {
    ::ERR_clear_error();
    return Status::invalid(path + " is not a PEM certificate");
  }
  return certificate;
}

Result<Signed> readAuthority(const std::string& folder) {
  const std::string key_path = folder + "/ca-key.pem";
  Result<Certificate> certificate = readCertificate(folder + "/ca.pem");
  if (!certificate) return certificate.status();
  const Bio in(::BIO_new_file(key_path.c_str(), "r"));
  if (!in) return errnoStatus("read", key_path);
  Signed ca{std::move(*certificate), Key(::PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr))};
  if (!ca.key || ::X509_check_private_key(ca.certificate.get(), ca.key.get()) != 1) {
    ::ERR_clear_error();
    return Status::invalid(key_path + " is not the key of " + folder + "/ca.pem");
  }
  return ca;
}

std::string dateText(const ASN1_TIME* time) {
  std::tm tm{};
  char text[32] = "an unknown date";
  if (::ASN1_TIME_to_tm(time, &tm) == 1) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm);
  return text;
}

Result<std::string> alternativeNames(std::vector<std::string> hosts) {
  if (hosts.size() > kMostHosts) return Status::invalid("a certificate can name at most 4096 hosts");
  hosts.insert(hosts.begin(), {"localhost", "127.0.0.1", "::1"});
  std::string names;
  for (const std::string& host : hosts) {
    in6_addr ignored;
    const bool address =
        ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 || ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
    // These become part of a list: what is neither an address nor a name would change its meaning.
    const bool name = !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == '*';
    });
    if (!address && !name) return Status::invalid("'" + host + "' is neither the name nor the address of a host");
    names += (names.empty() ? "" : ",") + std::string(address ? "IP:" : "DNS:") + host;
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> makeCertificates(const CertificateOptions& o) {
  if (o.days < 1 || o.days > kMostDays) return Status::invalid("certificates are valid for 1 to 36500 days");
  Result<std::string> hosts = alternativeNames(o.hosts);
  if (!hosts) return hosts.status();
  std::error_code error;
  fs::create_directories(o.folder, error);
  if (error) return Status::io("cannot create " + o.folder + ": " + error.message());
  std::vector<std::string> names = {"server", "client"};
  if (o.authority.empty()) names.insert(names.begin(), "ca");
  for (const std::string& name : names)
    for (const char* ending : {".pem", "-key.pem"})
      if (const std::string path = o.folder + "/" + name + ending; fs::exists(fs::symlink_status(path, error)))
        return Status::invalid(path + " already exists: nothing was overwritten");

  Result<Signed> ca = o.authority.empty() ? makeOne({"TraceSmith cluster authority", true, "", ""}, nullptr, o)
                                          : readAuthority(o.authority);
  if (!ca) return ca.status();
  // An agent dials and is dialled with the same certificate.
  Result<Signed> server = makeOne({"server", false, "serverAuth,clientAuth", *hosts}, &*ca, o);
  if (!server) return server.status();
  Result<Signed> client = makeOne({"client", false, "clientAuth", ""}, &*ca, o);
  if (!client) return client.status();
  std::vector<std::string> files;
  auto save = [&](const std::string& name, const Signed& made) -> Status {
    const std::string certificate = o.folder + "/" + name + ".pem", key = o.folder + "/" + name + "-key.pem";
    TS_TRY(writeNew(key, 0600, [&](BIO* out) {
      return ::PEM_write_bio_PKCS8PrivateKey(out, made.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    }));
    TS_TRY(writeNew(certificate, 0644, [&](BIO* out) { return ::PEM_write_bio_X509(out, made.certificate.get()); }));
    files.insert(files.end(), {certificate, key});
    return {};
  };
  if (o.authority.empty()) TS_TRY(save("ca", *ca));
  TS_TRY(save("server", *server));
  TS_TRY(save("client", *client));
  return files;
}

Status checkCertificate(const std::string& path) {
  Result<Certificate> certificate = readCertificate(path);
  if (!certificate) return certificate.status();
  const ASN1_TIME *from = ::X509_get0_notBefore(certificate->get()), *to = ::X509_get0_notAfter(certificate->get());
  if (::X509_cmp_current_time(to) < 0)
    return Status::invalid("the certificate " + path + " expired on " + dateText(to));
  if (::X509_cmp_current_time(from) > 0)
    return Status::invalid("the certificate " + path + " is not valid before " + dateText(from));
  return {};
}

}  // namespace tracesmith::cluster
